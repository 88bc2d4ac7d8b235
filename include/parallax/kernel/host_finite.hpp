// Finding what is not a number.
#pragma once

#include <cstdint>
#include <type_traits>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/config.hpp"

namespace parallax {

namespace detail {

// Whether a value is infinite or not a number: 1 or 0. By bits, so that no compiler's assumption of finite values changes it.
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
PARALLAX_HOST_DEVICE inline BitsOf<T> is_non_finite(T value) {
  using Bits = BitsOf<T>;
  constexpr Bits exponent = sizeof(T) == 4 ? static_cast<Bits>(0x7f800000u) : static_cast<Bits>(0x7ff0000000000000ull);
  return static_cast<Bits>((__builtin_bit_cast(Bits, value) & exponent) == exponent);
}

}  // namespace detail

// The first of n values that is infinite or not a number, n if there is none.
template <class T>
std::int64_t first_non_finite(T const* values, std::int64_t n) {
  using Bits = detail::BitsOf<T>;
  auto const odd = [&](std::int64_t i) { return detail::is_non_finite(values[i]); };
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
