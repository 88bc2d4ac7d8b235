// Bodies of parallax/detail/interop/safetensors/header.hpp.
#pragma once

#include "parallax/detail/interop/safetensors/header.hpp"

namespace parallax::inline v0_2::safetensors {

PARALLAX_INLINE std::uint64_t header_size(std::span<std::byte const> first, std::uint64_t file_size, std::string_view path) {
  if (first.size() < 8 || file_size < 8)
    throw FormatError(path, "a file of " + std::to_string(file_size) + " bytes is too short to be safetensors");
  std::uint64_t length = 0;
  for (int i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(first[static_cast<std::size_t>(i)]);
  if (length > most_header_bytes)
    throw FormatError(path, "the header's length is " + std::to_string(length) + " bytes, more than the " +
                                std::to_string(most_header_bytes) + " that are read: is this safetensors?");
  if (length > file_size - 8)
    throw FormatError(path,
                      "the header's length is " + std::to_string(length) + " bytes, in a file of " + std::to_string(file_size));
  return 8 + length;
}

PARALLAX_INLINE Header parse_header(std::span<std::byte const> bytes, std::uint64_t file_size, std::string_view path) {
  std::uint64_t const size = header_size(bytes, file_size, path);
  if (bytes.size() < size)
    throw FormatError(path,
                      "the header has " + std::to_string(size) + " bytes, and " + std::to_string(bytes.size()) + " are given");
  std::string_view const text{reinterpret_cast<char const*>(bytes.data()) + 8, static_cast<std::size_t>(size - 8)};
  return detail::Parser{text, file_size - size, path}.parse();
}

PARALLAX_INLINE Tensor Header::tensor(std::size_t i) const {
  detail::Entry const& entry = entries_[i];
  return {view(entry.name), entry.dtype, detail::Parser::shape(text_, entry.shape_at), data_begin() + entry.begin,
          data_begin() + entry.end};
}

PARALLAX_INLINE std::size_t Header::find(std::string_view name) const noexcept {
  std::size_t low = 0, high = by_name_.size();
  while (low < high) {
    std::size_t const middle = low + (high - low) / 2;
    if (view(entries_[by_name_[middle]].name) < name) low = middle + 1;
    else high = middle;
  }
  return low < by_name_.size() && view(entries_[by_name_[low]].name) == name ? by_name_[low] : size();
}

}  // namespace parallax::safetensors
