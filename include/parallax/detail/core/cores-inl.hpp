// Bodies of parallax/detail/core/cores.hpp.
#pragma once

#include "parallax/detail/core/cores.hpp"

namespace parallax::inline v0_2::detail {

// Returns how many cores a group of processes may use in the long run, rounded up: `quota` of every `period`, in us. 0: as many
// as there are.
inline int cores_paid_for(double quota, double period) {
  if (quota <= 0 || period <= 0) return 0;
  auto const cores = static_cast<int>(quota / period);
  return cores * period < quota ? cores + 1 : cores;
}

// Reads up to two numbers from a file of a folder; a missing number stays unchanged.
PARALLAX_COLD inline void read_numbers(char const* folder, char const* name, double& first, double* second = nullptr) {
  char path[6144];
  std::snprintf(path, sizeof path, "%s/%s", folder, name);
  std::FILE* const file = uninterrupted([&] { return std::fopen(path, "re"); });
  if (!file) return;
  if (std::fscanf(file, "%lf", &first) == 1 && second && std::fscanf(file, "%lf", second) != 1) *second = 0;
  std::fclose(file);
}

// Returns how many cores one control group may use. The group is a folder: of version 2 by cpu.max, or of version 1.
PARALLAX_COLD inline int cores_of_group(char const* folder) {
  double quota = 0, period = 0;
  read_numbers(folder, "cpu.max", quota, &period);
  if (quota > 0) return cores_paid_for(quota, period);
  read_numbers(folder, "cpu.cfs_quota_us", quota);
  read_numbers(folder, "cpu.cfs_period_us", period);
  return cores_paid_for(quota, period);
}

// Returns true if `cpu` is in a list of words parted by commas.
inline bool lists_cpu(char const* words) {
  for (; words; words = std::strchr(words, ',')) {
    words += *words == ',';
    if (std::strncmp(words, "cpu", 3) == 0 && (words[3] == ',' || words[3] == '\0')) return true;
  }
  return false;
}

PARALLAX_INLINE int cores_by_quota(char const* root) {
  int least = 0;
  char line[4096], folder[5120];  // a line is number:controllers:path
  std::snprintf(folder, sizeof folder, "%s/proc/self/cgroup", root);
  std::FILE* const groups = uninterrupted([&] { return std::fopen(folder, "re"); });
  while (groups && std::fgets(line, sizeof line, groups)) {
    line[std::strcspn(line, "\n")] = '\0';
    char* controllers = std::strchr(line, ':');
    char* path = controllers ? std::strchr(controllers + 1, ':') : nullptr;
    if (!path) continue;
    ++controllers, *path++ = '\0';
    if (*controllers && !lists_cpu(controllers)) continue;
    for (char* end = path; end;) {  // from the group to those around it
      std::snprintf(folder, sizeof folder, "%s/sys/fs/cgroup/%s%s", root, controllers, path);
      least = least_cores(least, cores_of_group(folder));
      end = std::strrchr(path, '/');
      if (end) *end = '\0';
    }
  }
  if (groups) std::fclose(groups);
  return least;
}

PARALLAX_INLINE int cores_of_host() {
  long const cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? static_cast<int>(cores) : 0;
}

}  // namespace parallax::detail
