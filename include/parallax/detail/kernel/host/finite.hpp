// The search for values that are not a number. Steps that ask for finite gradients look through theirs by it, before they are
// sent and once they are summed; kernels test values by its bits.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/view.hpp"

namespace parallax::inline v0_2 {

namespace detail {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
// Returns 1 for an infinite value or one not a number, else 0. By bits: no compiler's assumption of finite values changes it.
template <class T>
PARALLAX_HOST_DEVICE inline BitsOf<T> is_non_finite(T value) {
  using Bits = BitsOf<T>;
  constexpr Bits exponent = sizeof(T) == 4 ? static_cast<Bits>(0x7f800000u) : static_cast<Bits>(0x7ff0000000000000ull);
  return static_cast<Bits>((__builtin_bit_cast(Bits, value) & exponent) == exponent);
}

}  // namespace detail

// Returns the position of the first of n contiguous values that is infinite or not a number, n if there is none. Blocks of 512
// are tested whole, so the loop vectorises; only the block with the value is searched.
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

// An element that is no number, or infinite: its place, and its value.
struct NonFiniteElement {
  // The row, from 0, in the rows searched.
  std::int64_t row, column;  // the element in its row, from 0
  // The value itself, widened.
  double value;
};

// Returns the first such element of rows in the host's memory, in their order, row by row; none if all are finite.
template <class T>
std::optional<NonFiniteElement> first_non_finite(RowsView<T const> rows) {
  std::int64_t const at_once = rows.contiguous() ? rows.rows : 1;
  for (std::int64_t row = 0; row < rows.rows; row += at_once) {
    std::int64_t const n = at_once * rows.width, at = first_non_finite(rows.row(row), n);
    if (at < n)
      return NonFiniteElement{row + at / rows.width, at % rows.width, static_cast<double>(rows.row(row)[at])};
  }
  return std::nullopt;
}

}  // namespace parallax
