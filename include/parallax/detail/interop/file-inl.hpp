// Bodies of parallax/detail/interop/file.hpp.
#pragma once

#include "parallax/detail/interop/file.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::size_t end_of_utf8(std::string_view text) noexcept {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t at = 0;
  while (at < text.size()) {
    unsigned const first = byte(at);
    std::size_t const more = first < 0x80                     ? 0
                             : first >= 0xc2 && first <= 0xdf ? 1
                             : (first & 0xf0) == 0xe0         ? 2
                             : first >= 0xf0 && first <= 0xf4 ? 3
                                                              : text.size();
    if (text.size() - at <= more) return at;
    unsigned const least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;  // less would be longer than need be
    unsigned const most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;   // more would be a surrogate, or no character
    if (more > 0 && (byte(at + 1) < least || byte(at + 1) > most)) return at;
    for (std::size_t i = 2; i <= more; ++i)
      if ((byte(at + i) & 0xc0) != 0x80) return at;
    at += more + 1;
  }
  return at;
}

PARALLAX_INLINE std::string shown(std::string_view text) {
  bool const is_utf8 = end_of_utf8(text) == text.size();
  std::size_t length = text.size() > 64 ? 64 : text.size();
  while (is_utf8 && length > 0 && length < text.size() && (text[length] & 0xc0) == 0x80) --length;
  std::string result = "'";
  for (char const c : text.substr(0, length)) {
    auto const byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f && (byte < 0x80 || is_utf8)) result.push_back(c);
    else result.append("\\x").append(1, "0123456789abcdef"[byte >> 4]).append(1, "0123456789abcdef"[byte & 15]);
  }
  return result.append(length < text.size() ? "…'" : "'");
}

PARALLAX_INLINE void sync_folder(std::string const& folder) {
  auto const check = [&](int result, std::string_view call) {
    if (result >= 0) return;
    for (int const has_none : {EACCES, EPERM, EBADF, EINVAL, EISDIR, ENOSYS, EOPNOTSUPP, EROFS})
      if (errno == has_none) return;
    throw FileError(folder, call, errno);
  };
  Descriptor const opened = open_file(folder, O_RDONLY | O_DIRECTORY);
  check(opened.number(), "open");
  if (opened.is_open()) check(uninterrupted([&] { return ::fsync(opened.number()); }), "fsync");
}

PARALLAX_INLINE void check_regular(struct ::stat const& status, std::string_view path) {
  if (S_ISREG(status.st_mode)) return;
  throw FormatError(path, S_ISDIR(status.st_mode)    ? "this is a directory, and no regular file"
                          : S_ISFIFO(status.st_mode) ? "this is a FIFO, and no regular file"
                          : S_ISSOCK(status.st_mode) ? "this is a socket, and no regular file"
                                                     : "this is a device, and no regular file");
}

}  // namespace parallax::detail
