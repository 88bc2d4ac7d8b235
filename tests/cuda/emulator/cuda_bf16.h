// Stands in for CUDA's <cuda_bf16.h>: the type and its conversions.
#pragma once

#include <bit>
#include <cstdint>

struct __nv_bfloat16 {
  std::uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
// To the nearest, ties to even; what is no number becomes the one that CUDA makes of it.
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  auto const bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16)};
}
