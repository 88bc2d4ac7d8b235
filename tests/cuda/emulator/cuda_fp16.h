// Stands in for CUDA's <cuda_fp16.h>: the type and its conversions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

struct __half {
  std::uint16_t bits;
};

inline float __half2float(__half x) {
  int const exponent = x.bits >> 10 & 31, fraction = x.bits & 1023;
  float const sign = x.bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? std::bit_cast<float>(0x7fffffffu) : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}
// To the nearest, ties to even; what is no number becomes the one that CUDA makes of it.
inline __half __float2half_rn(float x) {
  if (std::isnan(x)) return {0x7fff};
  auto const sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  float const size = std::fabs(x);
  if (size >= 65520.0f) return {static_cast<std::uint16_t>(sign | 0x7c00)};
  int exponent = 0;
  std::frexp(size, &exponent);  // size = f * 2^exponent, f in [1/2, 1)
  int const least = exponent < -13 ? -24 : exponent - 11;  // of the last bit that is kept
  auto const units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, -least)));
  if (exponent < -13) return {static_cast<std::uint16_t>(sign | units)};  // a carry makes the least normal number
  return {static_cast<std::uint16_t>(sign | ((static_cast<std::uint32_t>(exponent + 13) << 10) + units))};
}
