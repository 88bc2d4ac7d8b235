// Bodies of parallax/detail/core/float_mode.hpp.
#pragma once

#include "parallax/detail/core/float_mode.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::string float_mode_text(std::uint64_t mode) {
  if (mode == 0) return "rounds to nearest, keeps subnormal numbers";
#if defined(__aarch64__)
  std::uint64_t const rounding = mode >> 22 & 3, flushes = mode & 0x1080001u;
  char const* const words[] = {"rounds to nearest", "rounds up", "rounds down", "rounds towards zero"};
#else
  std::uint64_t const rounding = mode >> 13 & 3, flushes = mode & 0x8040u;
  char const* const words[] = {"rounds to nearest", "rounds down", "rounds up", "rounds towards zero"};
#endif
  char bits[17] = {};
  char* first = bits + 16;
  for (; mode != 0; mode >>= 4) *--first = "0123456789abcdef"[mode & 15];
  return joined({words[rounding], flushes ? ", flushes subnormal numbers to zero" : ", keeps subnormal numbers",
                 " (control bits 0x", first, ")"});
}

}  // namespace parallax::detail
