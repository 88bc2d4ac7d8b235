// Numbers of 16 bits, in which a table may keep its rows: Variable<Sparse, BFloat16>. Arithmetic is in float: a number is
// widened exactly, and written back to the nearest, to even if two are equally near.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/option.hpp"

namespace parallax::inline v0_2 {

// The upper half of a float: as wide a range, with 8 bits of precision. An option of a Sparse variable.
struct BFloat16 {
  // Axis that makes it an option.
  using axis = scalar_axis;

  // The sign, 8 bits of exponent, 7 of mantissa.
  std::uint16_t bits;

  BFloat16() = default;
  // Rounds to the nearest. A number too large becomes infinite; a NaN stays one, and is quiet.
  PARALLAX_HOST_DEVICE constexpr explicit BFloat16(float value) : bits{nearest(value)} {}
  // Returns the number as a float, exactly.
  PARALLAX_HOST_DEVICE constexpr operator float() const { return value(bits); }

  // Returns the number of such bits. Loops over many are of these two functions, for compilers take no vectors of structs.
  PARALLAX_HOST_DEVICE static constexpr float value(std::uint16_t bits) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
  // Returns the bits of the nearest number.
  PARALLAX_HOST_DEVICE static constexpr std::uint16_t nearest(float number) {
    auto const value = __builtin_bit_cast(std::uint32_t, number);
    std::uint32_t const rounded = (value + 0x7fffu + ((value >> 16) & 1u)) >> 16, quiet = (value >> 16) | 0x40u;
    return static_cast<std::uint16_t>((value & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
};

// IEEE 754's binary16: 11 bits of precision, and numbers up to 65504. An option of a Sparse variable.
struct Float16 {
  // Axis that makes it an option.
  using axis = scalar_axis;

  // The sign, 5 bits of exponent, 10 of mantissa.
  std::uint16_t bits;

  Float16() = default;
  // Rounds to the nearest. A number from 65520 on becomes infinite; a NaN stays one, and is quiet.
  PARALLAX_HOST_DEVICE constexpr explicit Float16(float value) : bits{nearest(value)} {}
  // Returns the number as a float, exactly.
  PARALLAX_HOST_DEVICE constexpr operator float() const { return value(bits); }

  // Returns the number of such bits.
  PARALLAX_HOST_DEVICE static constexpr float value(std::uint16_t bits) {
    constexpr std::uint32_t infinite = 0x7c00u << 13, least = 113u << 23;  // in a float's place; 2^-14
    std::uint32_t const magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
    std::uint32_t const sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    std::uint32_t value = magnitude + (112u << 23);  // of another bias
    if (magnitude >= infinite) value += 112u << 23;
    else if (magnitude < (1u << 23))  // a subnormal one: its mantissa counts 2^-24
      value =
          __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, value + (1u << 23)) - __builtin_bit_cast(float, least));
    return __builtin_bit_cast(float, sign | value);
  }
  // Returns the bits of the nearest number.
  PARALLAX_HOST_DEVICE static constexpr std::uint16_t nearest(float number) {
    auto const value = __builtin_bit_cast(std::uint32_t, number);
    std::uint32_t const sign = (value >> 16) & 0x8000u, magnitude = value & 0x7fffffffu;
    std::uint32_t rounded = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    if (magnitude > 0x7f800000u) rounded = 0x7e00u;
    else if (magnitude >= (143u << 23)) rounded = 0x7c00u;  // 65536
    else if (magnitude < (113u << 23))                      // the sum's last bit counts 2^-24, and the addition rounds
      rounded = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - (126u << 23);
    return static_cast<std::uint16_t>(sign | rounded);
  }
};

// True if T is kept in 16 bits and computed with in float.
template <class T>
inline constexpr bool is_short_float = std::same_as<T, BFloat16> || std::same_as<T, Float16>;
// Type of computations with rows kept as T: of gradients, sums, slots, and the rows of a pull.
template <class T>
using computed_type = std::conditional_t<is_short_float<T>, float, T>;

// Widens n numbers of 16 bits. The ranges do not overlap. By sixteens: compilers then vectorise without asking first for n.
template <class T>
void widen(T const* __restrict from, std::size_t n, computed_type<T>* __restrict to) {
  constexpr std::size_t block = 16;
  for (; n >= block; n -= block, from += block, to += block)
    for (std::size_t i = 0; i < block; ++i) to[i] = T::value(from[i].bits);
  for (std::size_t i = 0; i < n; ++i) to[i] = T::value(from[i].bits);
}
// Rounds n numbers to 16 bits. The ranges do not overlap. By sixteens, as `widen`.
template <class T>
void narrow(computed_type<T> const* __restrict from, std::size_t n, T* __restrict to) {
  constexpr std::size_t block = 16;
  for (; n >= block; n -= block, from += block, to += block)
    for (std::size_t i = 0; i < block; ++i) to[i].bits = T::nearest(from[i]);
  for (std::size_t i = 0; i < n; ++i) to[i].bits = T::nearest(from[i]);
}

}  // namespace parallax
