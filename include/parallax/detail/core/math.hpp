// Arithmetic that rules may use without giving up bits, and the few functions of <cmath> needed by the library, without its
// cost to a compiler. Optimizers include it for `sqrt`; schedules, initialisers and models of cost for the rest.
#pragma once

#if __has_include(<features.h>)
#include <features.h>  // __GLIBC__
#endif

#include "parallax/detail/core/config.hpp"

// x86 compilers leave a square root scalar if they may set errno. These two are the instruction without errno, and so become
// sqrtps and sqrtpd in loops that vectorise. g++ has no other name for them: a declaration of its own built-in functions for
// _Float32 and _Float64, unused by standard functions, says that they have no side effect.
#if !defined(__clang__) && !defined(__CUDACC__) && defined(__GLIBC__) && defined(__x86_64__)
#if __has_builtin(__builtin_sqrtf32) && __has_builtin(__builtin_sqrtf64)
#define PARALLAX_DETAIL_SQRT_BUILTIN 1
extern "C" {
__attribute__((const)) decltype(__builtin_sqrtf32(0)) __builtin_sqrtf32(decltype(__builtin_sqrtf32(0))) noexcept;
__attribute__((const)) decltype(__builtin_sqrtf64(0)) __builtin_sqrtf64(decltype(__builtin_sqrtf64(0))) noexcept;
}
#endif
#elif defined(__clang__) && !defined(__CUDACC__) && defined(__SSE2__)
#define PARALLAX_DETAIL_SQRT_LANE 1
#endif

#if defined(__clang__)  // clang takes the setting of this text, g++ of the function inlined into
PARALLAX_STRICT_ARITHMETIC_BEGIN
#endif
namespace parallax::inline v0_2 {
namespace detail {

// Functions of <cmath> by these names, in double: x to the power y, the cosine of x in radians, log(1 + x), and the square
// root. All are for the host. Of `pow`, `cos` and `log1p` another machine may give another last bit.
inline double pow(double x, double y) { return __builtin_pow(x, y); }
inline double cos(double x) { return __builtin_cos(x); }
inline double log1p(double x) { return __builtin_log1p(x); }
inline double square_root(double x) { return __builtin_sqrt(x); }
// Returns the square root of a float, for `root_of` if nothing better is known.
inline float square_root(float x) { return __builtin_sqrtf(x); }

#if defined(PARALLAX_DETAIL_SQRT_BUILTIN)
// Returns the square root for `parallax::sqrt`: correctly rounded in the argument's own precision, without errno.
inline float root_of(float x) noexcept { return static_cast<float>(__builtin_sqrtf32(x)); }
inline double root_of(double x) noexcept { return static_cast<double>(__builtin_sqrtf64(x)); }
#elif defined(PARALLAX_DETAIL_SQRT_LANE) && defined(__FAST_MATH__)
// There clang would make an estimate of each of its names: the instruction itself; clang does not vectorise it.
#if defined(__AVX__)
#define PARALLAX_DETAIL_SQRT_OF(width) "vsqrts" width " %1, %1, %0"
#else
#define PARALLAX_DETAIL_SQRT_OF(width) "sqrts" width " %1, %0"
#endif
inline float root_of(float x) noexcept {
  float root;
  asm(PARALLAX_DETAIL_SQRT_OF("s") : "=x"(root) : "x"(x));
  return root;
}
inline double root_of(double x) noexcept {
  double root;
  asm(PARALLAX_DETAIL_SQRT_OF("d") : "=x"(root) : "x"(x));
  return root;
}
#undef PARALLAX_DETAIL_SQRT_OF
#elif defined(PARALLAX_DETAIL_SQRT_LANE)
// clang reads the instruction on one lane as the operation, and vectorises it.
inline float root_of(float x) noexcept {
  using Lanes __attribute__((vector_size(16))) = float;
  return __builtin_ia32_sqrtss(Lanes{x})[0];
}
inline double root_of(double x) noexcept {
  using Lanes __attribute__((vector_size(16))) = double;
  return __builtin_ia32_sqrtsd(Lanes{x})[0];
}
#elif defined(__CUDACC__)
PARALLAX_HOST_DEVICE inline float root_of(float x) noexcept { return ::sqrtf(x); }
PARALLAX_HOST_DEVICE inline double root_of(double x) noexcept { return ::sqrt(x); }
#else
inline float root_of(float x) noexcept { return square_root(x); }
inline double root_of(double x) noexcept { return square_root(x); }
#endif

// Returns true if a number is neither infinite nor a NaN. Its bits tell, in spite of a compiler's assumptions on numbers, and
// on numbers given to functions by value.
constexpr bool is_finite(double const& x) { return (__builtin_bit_cast(unsigned long long, x) >> 52 & 0x7ffu) != 0x7ffu; }
// Returns true if a number is finite and 0 or more, as a time or a bound; or if it is finite and more than 0.
constexpr bool is_not_negative(double const& x) { return is_finite(x) && x >= 0; }
constexpr bool is_positive(double const& x) { return is_finite(x) && x > 0; }

}  // namespace detail

// Returns the correctly rounded square root (IEEE 754, section 5.4.1), on host and device. Does not set errno. A type of one's
// own has a function root_of for it.
template <class T>
PARALLAX_HOST_DEVICE inline T sqrt(T x) noexcept {
  using detail::root_of;
  return root_of(x);
}

}  // namespace parallax
#if defined(__clang__)
PARALLAX_STRICT_ARITHMETIC_END
#endif
