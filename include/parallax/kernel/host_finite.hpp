// Finding what is not a number.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "parallax/core/algorithm.hpp"

namespace parallax {

// The first of n values that is infinite or not a number, n if there is none. By bits, so that no compiler's assumption of
// finite arithmetic changes it.
template <class T>
std::int64_t first_non_finite(T const* values, std::int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits exponent = sizeof(T) == 4 ? static_cast<Bits>(0x7f800000u) : static_cast<Bits>(0x7ff0000000000000ull);
  auto const odd = [&](std::int64_t i) { return static_cast<Bits>((std::bit_cast<Bits>(values[i]) & exponent) == exponent); };
  constexpr std::int64_t block = 512;
  for (std::int64_t begin = 0; begin < n; begin += block) {
    std::int64_t const end = std::min(n, begin + block);
    Bits found = 0;
    for (std::int64_t i = begin; i < end; ++i) found |= odd(i);
    for (std::int64_t i = begin; found && i < end; ++i)
      if (odd(i)) return i;
  }
  return n;
}

}  // namespace parallax
