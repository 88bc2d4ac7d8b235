// Bodies of parallax/detail/checkpoint/folder_lock.hpp.
#pragma once

#include "parallax/detail/checkpoint/folder_lock.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::string this_holder() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::string text = joined({"process ", ::getpid(), " on host ", host[0] ? host.data() : "?"});
  for (char const* const name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"})
    if (char const* const job = std::getenv(name); job && *job) {
      append(text, {", job ", job});
      break;
    }
  std::time_t const now = std::time(nullptr);
  std::tm parts{};
  char since[32] = {};
  if (::gmtime_r(&now, &parts) && std::strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &parts) > 0)
    append(text, {", since ", since, " UTC"});
  return text;
}

}  // namespace parallax::detail
