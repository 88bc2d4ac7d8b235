// Bodies of parallax/detail/core/system.hpp.
#pragma once

#include "parallax/detail/core/system.hpp"

#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE int open_descriptor(char const* path, int flags, ::mode_t mode) noexcept {
  return uninterrupted([&] { return ::open(path, flags | O_CLOEXEC, mode); });
}

PARALLAX_INLINE int make_descriptor(char const* path, int flags, ::mode_t mode) noexcept {
  int const made = open_descriptor(path, flags | O_CREAT | O_EXCL, mode);
  bool const knows_none = made < 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP);
  return knows_none ? open_descriptor(path, flags | O_CREAT | O_TRUNC, mode) : made;
}

PARALLAX_INLINE bool may_have_bytes(std::uint64_t bytes) noexcept {
  struct ::rlimit limit {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

PARALLAX_INLINE ::ssize_t read_all(int from, void* to, std::size_t room) noexcept {
  std::size_t had = 0;
  while (had < room) {
    auto const count = uninterrupted([&] { return ::read(from, static_cast<char*>(to) + had, room - had); });
    if (count < 0) return -1;
    if (count == 0) break;
    had += static_cast<std::size_t>(count);
  }
  return static_cast<::ssize_t>(had);
}

PARALLAX_INLINE bool write_all(int to, void const* from, std::size_t bytes) noexcept {
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
