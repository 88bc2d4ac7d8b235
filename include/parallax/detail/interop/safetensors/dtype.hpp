// The dtypes of the format safetensors: their names, sizes, and C++ types. safetensors/header.hpp includes it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "parallax/detail/core/short_float.hpp"

namespace parallax::inline v0_2::safetensors {

// Type of a tensor's elements. The format's F4, F6_E2M3 and F6_E3M2, of less than a byte, are refused.
enum class Dtype : std::uint8_t {
  boolean,      // BOOL: a byte, 0 or 1
  u8,           // U8
  i8,           // I8
  f8_e5m2,      // F8_E5M2: a byte, 5 bits of it the exponent
  f8_e4m3,      // F8_E4M3
  f8_e8m0,      // F8_E8M0: a power of two
  f8_e4m3fnuz,  // F8_E4M3FNUZ: without infinities and -0
  f8_e5m2fnuz,  // F8_E5M2FNUZ: likewise
  i16,          // I16
  u16,          // U16
  f16,          // F16: IEEE's half precision
  bf16,         // BF16: the upper half of a float
  i32,          // I32
  u32,          // U32
  f32,          // F32
  c64,          // C64: two floats, real and imaginary
  f64,          // F64
  i64,          // I64
  u64,          // U64
};

namespace detail {

struct DtypeFacts {
  std::string_view name;
  std::size_t size;
};
inline constexpr DtypeFacts dtypes[] = {
    {"BOOL", 1},        {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"F8_E4M3FNUZ", 1},
    {"F8_E5M2FNUZ", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},     {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},         {"C64", 8}, {"F64", 8}, {"I64", 8},     {"U64", 8},
};

template <class T>
constexpr Dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8,
                "parallax: this type has no dtype: specialise parallax::safetensors::DtypeOf, or use bytes()");
  if constexpr (std::is_same_v<T, bool>) return Dtype::boolean;
  if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? Dtype::f32 : Dtype::f64;
  constexpr Dtype of_signed[] = {Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64};
  constexpr Dtype of_unsigned[] = {Dtype::u8, Dtype::u16, Dtype::u32, Dtype::u64};
  return (std::is_signed_v<T> ? of_signed : of_unsigned)[std::bit_width(sizeof(T)) - 1];
}

}  // namespace detail

// Returns a dtype's name in the format: "BF16" for Dtype::bf16.
constexpr std::string_view to_string(Dtype dtype) { return detail::dtypes[static_cast<std::size_t>(dtype)].name; }

// Returns the bytes of an element.
constexpr std::size_t size_of(Dtype dtype) { return detail::dtypes[static_cast<std::size_t>(dtype)].size; }

// The dtype of a C++ type. Specialise it for a trivially copyable type of your own with a dtype's bits, such as
// std::complex<float>, with Dtype::c64.
template <class T>
struct DtypeOf {
  static constexpr Dtype value = detail::dtype_of<T>();  // of an integer, float, double or bool
};

// Of the library's BFloat16.
template <>
struct DtypeOf<BFloat16> {
  static constexpr Dtype value = Dtype::bf16;  // the same bits
};
// Of the library's Float16.
template <>
struct DtypeOf<Float16> {
  static constexpr Dtype value = Dtype::f16;  // the same bits
};

}  // namespace parallax::safetensors
