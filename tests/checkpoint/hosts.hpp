// Hosts that share no folder, in one process: each thread that is a rank has a folder of its own to work in, so that the same relative
// name means another place on each host.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace parallax_test {

// While one lives, its thread works in `folder`, which is there. Threads that this one starts do so as well.
class OnHost {
 public:
  explicit OnHost(std::string const& folder) {
    before_ = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (before_ < 0 || ::unshare(CLONE_FS) != 0 || ::chdir(folder.c_str()) != 0)
      throw std::runtime_error("cannot work in " + folder + ": " + std::strerror(errno));
  }
  OnHost(OnHost const&) = delete;
  ~OnHost() {
    static_cast<void>(!::fchdir(before_));
    ::close(before_);
  }

 private:
  int before_;
};

}  // namespace parallax_test
