// Rounding of the calling thread, and its flushing of subnormal numbers to zero: ranks that differ in it compute other bits.
// Each agreement of an engine compares it.
#pragma once

#include <cstdint>
#include <string>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2::detail {

// Returns the bits of the processor's control word by which results differ: of rounding and of subnormal numbers, not of
// exceptions. 0 is IEEE 754's default, and the answer for an unknown word. Read anew at each call: libraries loaded later may
// set them.
inline std::uint64_t float_mode() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & 0xe040u;  // rounding control, FTZ; DAZ
#elif defined(__aarch64__)
  std::uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word & 0x3c80007u;  // RMode, FZ, DN, FZ16; NEP, AH, FIZ
#else
  return 0;
#endif
}

// Returns a mode in words, for ranks that differ in it: "rounds to nearest, keeps subnormal numbers".
PARALLAX_COLD std::string float_mode_text(std::uint64_t mode);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/core/float_mode-inl.hpp"
#endif
