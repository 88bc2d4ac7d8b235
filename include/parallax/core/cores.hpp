// How many cores the ranks of a host have: as the system lets them run (affinity), and as their container pays for (quota). Communicators
// ask it once, and their waits differ where ranks outnumber cores.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#if __has_include(<sched.h>)
#include <sched.h>
#include <unistd.h>
#endif

#include "parallax/core/config.hpp"

namespace parallax::detail {

// A set of cores, which ranks can tell each other as bytes. Those beyond the 1024th are not in it.
struct CoreSet {
  std::uint64_t bits[16] = {};

  // The cores on which the calling thread may run; empty where the system does not tell.
  static CoreSet own() {
    CoreSet set;
#if __has_include(<sched.h>)
    if (::sched_getaffinity(0, sizeof set.bits, reinterpret_cast<cpu_set_t*>(set.bits)) != 0) return {};
#endif
    return set;
  }
  // Adds those of another set.
  void add(CoreSet const& other) {
    for (int i = 0; i < 16; ++i) bits[i] |= other.bits[i];
  }
  // How many are in it.
  int count() const {
    int count = 0;
    for (std::uint64_t const word : bits) count += __builtin_popcountll(word);
    return count;
  }
};

// What a file of at most a page says; empty where it cannot be read.
PARALLAX_COLD inline std::string small_file(std::string const& path) {
  char text[4096];
  std::FILE* const file = std::fopen(path.c_str(), "re");
  std::size_t const bytes = file ? std::fread(text, 1, sizeof text, file) : 0;
  if (file) std::fclose(file);
  return {text, bytes};
}

// The least of several numbers of cores, of which 0 means that there is no bound.
inline int least_cores(int one, int other) { return one == 0 || (other > 0 && other < one) ? other : one; }

// How many cores a group of processes may use in the long run, rounded up: `quota` of every `period`, in us. 0: as many as there are.
inline int cores_paid_for(char const* quota, char const* period) {
  double const part = std::atof(quota), whole = std::atof(period);
  if (part <= 0 || whole <= 0) return 0;
  auto const cores = static_cast<int>(part / whole);
  return cores * whole < part ? cores + 1 : cores;
}

// The same of one control group, which is a folder: of version 2 by cpu.max, or of version 1.
PARALLAX_COLD inline int cores_of_group(std::string const& folder) {
  std::string const both = small_file(folder + "/cpu.max");
  std::size_t const space = both.find(' ');
  if (space != both.npos) return cores_paid_for(both.c_str(), both.c_str() + space);
  return cores_paid_for(small_file(folder + "/cpu.cfs_quota_us").c_str(), small_file(folder + "/cpu.cfs_period_us").c_str());
}

// How many cores this process may use by the quota of its control group and all around it, rounded up; 0 where there is none. `root`:
// of the file system, for tests.
PARALLAX_COLD inline int cores_by_quota(std::string const& root = {}) {
  int least = 0;
  std::string const groups = small_file(root + "/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {
    std::string_view const line = rest.substr(0, rest.find('\n'));  // number:controllers:path
    rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : line.size());
    std::size_t const first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string const controllers{line.substr(first + 1, second - first - 1)};
    if (!controllers.empty() && ("," + controllers + ",").find(",cpu,") == controllers.npos) continue;
    std::string const mount = root + "/sys/fs/cgroup/" + controllers;
    for (std::string path{line.substr(second + 1)};; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      least = least_cores(least, cores_of_group(mount + path));
      if (path.find('/') == path.npos) break;
    }
  }
  return least;
}

// How many cores there are for ranks that may run on that set, as many as the quota pays for at most; 0 where nobody knows.
PARALLAX_COLD inline int usable_cores(CoreSet const& set) { return least_cores(set.count(), cores_by_quota()); }

// How many cores this host has; 0 where nobody knows.
inline int cores_of_host() {
#if __has_include(<sched.h>)
  long const cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? static_cast<int>(cores) : 0;
#else
  return 0;
#endif
}

// Whether so many ranks outnumber the cores that they have. False where nobody knows.
inline bool outnumber(int ranks, int cores) { return cores > 0 && ranks > cores; }

}  // namespace parallax::detail
