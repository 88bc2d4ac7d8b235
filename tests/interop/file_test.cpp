// Calls of files that a signal interrupts are made again: this program's own definitions of them fail once.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>

#include "../catch.hpp"
#include "parallax/interop/file.hpp"
#include "scratch.hpp"

namespace {

// Interruptions that are still to come, of each call.
int of_open = 0, of_ftruncate = 0, of_fsync = 0;

bool interrupted(int& left) {
  if (left == 0) return false;
  --left;
  errno = EINTR;
  return true;
}

}  // namespace

extern "C" {

int open(char const* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t const mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return interrupted(of_open) ? -1 : static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int ftruncate(int fd, off_t size) noexcept {
  return interrupted(of_ftruncate) ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, size));
}
int fsync(int fd) { return interrupted(of_fsync) ? -1 : static_cast<int>(syscall(SYS_fsync, fd)); }

}  // extern "C"

TEST_CASE("a file that a signal interrupts is made and opened all the same", "[interop][file]") {
  parallax_test::Scratch const scratch;
  std::string const path = scratch.path("file"), text = "hello";
  of_open = 2, of_ftruncate = 3;
  parallax::NewFile file{path, text.size()};
  CHECK(of_open + of_ftruncate == 0);
  file.write(0, std::as_bytes(std::span{text}));
  of_fsync = 2, of_open = 1;
  file.finish();
  CHECK(of_fsync + of_open == 0);
  of_open = 2;
  parallax::MappedFile const mapped{path};
  CHECK(of_open == 0);
  CHECK(mapped.bytes().size() == text.size());
}

TEST_CASE("the folder of a new file is brought to the disk although a signal interrupts that", "[interop][file]") {
  parallax_test::Scratch const scratch;
  parallax::NewFile file{scratch.path("file"), 0};
  of_fsync = 3;  // of the file and of its folder
  file.finish();
  CHECK(of_fsync == 0);
}
