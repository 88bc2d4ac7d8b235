// Number of cores for the ranks of a host: as the system lets them run (affinity), and as their container pays for (quota).
// Communicators ask it once, and their waits differ if ranks outnumber cores.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/uninterrupted.hpp"

namespace parallax::inline v0_2::detail {

// A set of cores. Ranks can tell each other one as bytes. Cores beyond the 1024th are left out.
struct CoreSet {
  std::uint64_t bits[16] = {};

  // Returns the cores on which the calling thread may run; none if the system does not tell.
  static CoreSet own() {
    CoreSet set;
    if (::sched_getaffinity(0, sizeof set.bits, reinterpret_cast<cpu_set_t*>(set.bits)) != 0) return {};
    return set;
  }
  // Adds the cores of another set.
  void add(CoreSet const& other) {
    for (int i = 0; i < 16; ++i) bits[i] |= other.bits[i];
  }
  // Returns the number of cores in the set.
  int count() const {
    int count = 0;
    for (std::uint64_t const word : bits) count += __builtin_popcountll(word);
    return count;
  }
};

// Returns the least of several numbers of cores: 0 means no bound.
inline int least_cores(int one, int other) { return one == 0 || (other > 0 && other < one) ? other : one; }

// Returns how many cores this process may use by the quota of its control group and all around it, rounded up; 0 if there is
// none. `root`: of the file system, for tests.
PARALLAX_COLD int cores_by_quota(char const* root = "");

// Returns the number of cores for ranks on this set, bounded by the quota; 0 if nobody knows.
PARALLAX_COLD inline int usable_cores(CoreSet const& set) { return least_cores(set.count(), cores_by_quota()); }

// Returns how many cores this host has; 0 if nobody knows.
int cores_of_host();

// Returns true if so many ranks outnumber their cores. False if nobody knows.
inline bool outnumber(int ranks, int cores) { return cores > 0 && ranks > cores; }

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/core/cores-inl.hpp"
#endif
