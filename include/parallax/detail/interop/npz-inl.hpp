// Bodies of parallax/interop/npz.hpp.
#pragma once

#include "parallax/interop/npz.hpp"

namespace parallax::inline v0_2::npz::detail {

PARALLAX_INLINE std::uint32_t crc_of(std::span<std::byte const> bytes) noexcept {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t rest = byte;
      for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? 0xedb88320u ^ rest >> 1 : rest >> 1;
      made[byte] = rest;
    }
    return made;
  }();
  std::uint32_t crc = ~0u;
  for (std::byte const byte : bytes) crc = table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 255] ^ crc >> 8;
  return ~crc;
}

}  // namespace parallax::npz::detail
