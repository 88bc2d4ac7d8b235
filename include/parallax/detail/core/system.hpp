// Calls of the system that go on after a signal has interrupted them, and questions that are asked before the system would
// answer by a signal. For the headers that call it: files (detail/interop/file.hpp), memory of a host
// (detail/memory/nameless_file.hpp), sockets and pipes (comm).
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/uninterrupted.hpp"

namespace parallax::detail {

// Opens a file that no program inherits. Returns its descriptor, or -1.
inline int open_descriptor(char const* path, int flags, ::mode_t mode = 0) noexcept {
  return uninterrupted([&] { return ::open(path, flags | O_CLOEXEC, mode); });
}

// Makes a file that is not there. A mount may refuse O_EXCL itself, as some of FUSE do, and makes it without: a file that
// somebody else has made meanwhile is then emptied. Returns its descriptor, or -1.
inline int make_descriptor(char const* path, int flags, ::mode_t mode) noexcept {
  int const made = open_descriptor(path, flags | O_CREAT | O_EXCL, mode);
  bool const knows_none = made < 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP);
  return knows_none ? open_descriptor(path, flags | O_CREAT | O_TRUNC, mode) : made;
}

// Returns whether a file of this process may have so many bytes. A process that makes it longer than RLIMIT_FSIZE is ended by
// SIGXFSZ. A process can ask before, and say EFBIG. Of bytes across the limit the system writes the part before it.
inline bool may_have_bytes(std::uint64_t bytes) noexcept {
  struct ::rlimit limit {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

// Reads until there is no more, or no room. Returns how many bytes, or -1.
inline ::ssize_t read_all(int from, void* to, std::size_t room) noexcept {
  std::size_t had = 0;
  while (had < room) {
    auto const count = uninterrupted([&] { return ::read(from, static_cast<char*>(to) + had, room - had); });
    if (count < 0) return -1;
    if (count == 0) break;
    had += static_cast<std::size_t>(count);
  }
  return static_cast<::ssize_t>(had);
}

// Writes all, waiting. Returns whether the system took it.
inline bool write_all(int to, void const* from, std::size_t bytes) noexcept {
  auto const* rest = static_cast<char const*>(from);
  while (bytes > 0) {
    auto const count = uninterrupted([&] { return ::write(to, rest, bytes); });
    if (count < 0) return false;
    rest += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace parallax::detail
