// A wire that sends floats as the upper half of their bits, rounded to the nearest, of two equally near to the even one (bfloat16).
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace parallax_test {

struct Bf16Wire {
  template <std::same_as<float> T>
  using element = std::uint16_t;

  static void encode(float const* from, std::size_t n, std::uint16_t* to) {
    for (std::size_t i = 0; i < n; ++i) {
      auto const bits = std::bit_cast<std::uint32_t>(from[i]);
      bool const is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
      to[i] = static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
  }
  static void decode(std::uint16_t const* from, std::size_t n, float* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16);
  }
};

}  // namespace parallax_test
