// Numbers with arithmetic that a device compiler may not contract, and the types of numbers stored in rows. Kernels compute in
// them, and hand them to the rules of optimizers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <concepts>
#include <type_traits>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/math.hpp"
#include "parallax/detail/core/short_float.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device {

template <std::floating_point T>
struct Strict;

namespace detail {

// Operations, each rounded by itself. Device compilers contract a product and a sum of plain operators into one operation that
// rounds once; these intrinsics they leave alone (CUDA Math API, single and double precision intrinsics).
#if defined(__CUDA_ARCH__)
#define PARALLAX_DETAIL_ROUNDED(device, host) return device
#else
#define PARALLAX_DETAIL_ROUNDED(device, host) PARALLAX_NO_CONTRACT return host
#endif
PARALLAX_HOST_DEVICE inline float add(float a, float b) noexcept { PARALLAX_DETAIL_ROUNDED(__fadd_rn(a, b), a + b); }
PARALLAX_HOST_DEVICE inline float subtract(float a, float b) noexcept { PARALLAX_DETAIL_ROUNDED(__fsub_rn(a, b), a - b); }
PARALLAX_HOST_DEVICE inline float multiply(float a, float b) noexcept { PARALLAX_DETAIL_ROUNDED(__fmul_rn(a, b), a * b); }
PARALLAX_HOST_DEVICE inline float divide(float a, float b) noexcept { PARALLAX_DETAIL_ROUNDED(__fdiv_rn(a, b), a / b); }
PARALLAX_HOST_DEVICE inline float root(float a) noexcept { PARALLAX_DETAIL_ROUNDED(__fsqrt_rn(a), parallax::sqrt(a)); }
PARALLAX_HOST_DEVICE inline double add(double a, double b) noexcept { PARALLAX_DETAIL_ROUNDED(__dadd_rn(a, b), a + b); }
PARALLAX_HOST_DEVICE inline double subtract(double a, double b) noexcept { PARALLAX_DETAIL_ROUNDED(__dsub_rn(a, b), a - b); }
PARALLAX_HOST_DEVICE inline double multiply(double a, double b) noexcept { PARALLAX_DETAIL_ROUNDED(__dmul_rn(a, b), a * b); }
PARALLAX_HOST_DEVICE inline double divide(double a, double b) noexcept { PARALLAX_DETAIL_ROUNDED(__ddiv_rn(a, b), a / b); }
PARALLAX_HOST_DEVICE inline double root(double a) noexcept { PARALLAX_DETAIL_ROUNDED(__dsqrt_rn(a), parallax::sqrt(a)); }
#undef PARALLAX_DETAIL_ROUNDED

// True if T is a Strict number.
template <class T>
inline constexpr bool is_strict = false;
template <class T>
inline constexpr bool is_strict<Strict<T>> = true;

// Returns the plain number in an operand of a mixed operation.
template <class T>
PARALLAX_HOST_DEVICE constexpr auto raw(T number) noexcept {
  if constexpr (is_strict<T>) return number.value;
  else return number;
}

// One operand at least is strict, the other one strict or a plain number: the operands of the operators below.
template <class A, class B>
concept StrictOperands = (is_strict<A> || is_strict<B>) && (is_strict<A> || std::is_arithmetic_v<A>) &&
                         (is_strict<B> || std::is_arithmetic_v<B>);

// Type of an operation on an A and a B, by the rules of the language: float and int to float, float and double to double.
template <class A, class B>
using rounded_to = decltype(raw(A{}) + raw(B{}));

}  // namespace detail

// A float or double that converts and mixes with other numbers like those, but rounds each operation by itself: a rule written
// with plain operators has the same bits on a device as on the host. Rules of optimizers are called with it on devices.
// Arithmetic outside, static_cast<double>(x), leaves the promise too.
template <std::floating_point T>
struct Strict {
  // The number itself.
  T value;

  Strict() = default;
  // Converts a plain number as the language does: constants of rules come in by it.
  template <class U>
    requires std::is_arithmetic_v<U>
  PARALLAX_HOST_DEVICE constexpr Strict(U number) noexcept : value{static_cast<T>(number)} {}
  // Converts a strict number of the other width, as the language does.
  template <class U>
  PARALLAX_HOST_DEVICE constexpr Strict(Strict<U> number) noexcept : value{static_cast<T>(number.value)} {}
  // Returns the plain number, by `static_cast`: arithmetic on it is the compiler's again.
  template <class U>
    requires std::is_arithmetic_v<U>
  PARALLAX_HOST_DEVICE constexpr explicit operator U() const noexcept {
    return static_cast<U>(value);
  }

  // Returns the number as it is.
  PARALLAX_HOST_DEVICE constexpr Strict operator+() const noexcept { return *this; }
  // Returns the number with the other sign, exactly.
  PARALLAX_HOST_DEVICE constexpr Strict operator-() const noexcept { return Strict{-value}; }
  // Adds, rounded as by operator+, then converted to T.
  PARALLAX_HOST_DEVICE Strict& operator+=(auto b) noexcept { return *this = *this + b; }
  // Subtracts, rounded as by operator-, then converted to T.
  PARALLAX_HOST_DEVICE Strict& operator-=(auto b) noexcept { return *this = *this - b; }
  // Multiplies, rounded as by operator*, then converted to T: never joined with a sum behind it.
  PARALLAX_HOST_DEVICE Strict& operator*=(auto b) noexcept { return *this = *this * b; }
  // Divides, rounded as by operator/, then converted to T: a true division.
  PARALLAX_HOST_DEVICE Strict& operator/=(auto b) noexcept { return *this = *this / b; }
};

// Returns the sum, rounded to the language's type for an operation on both.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE auto operator+(A a, B b) noexcept {
  using T = detail::rounded_to<A, B>;
  return Strict<T>{detail::add(static_cast<T>(a), static_cast<T>(b))};
}
// Returns the difference, rounded to the language's type for an operation on both.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE auto operator-(A a, B b) noexcept {
  using T = detail::rounded_to<A, B>;
  return Strict<T>{detail::subtract(static_cast<T>(a), static_cast<T>(b))};
}
// Returns the product, rounded to the language's type for an operation on both, and never contracted with a sum.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE auto operator*(A a, B b) noexcept {
  using T = detail::rounded_to<A, B>;
  return Strict<T>{detail::multiply(static_cast<T>(a), static_cast<T>(b))};
}
// Returns the quotient, rounded to the language's type for an operation on both.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE auto operator/(A a, B b) noexcept {
  using T = detail::rounded_to<A, B>;
  return Strict<T>{detail::divide(static_cast<T>(a), static_cast<T>(b))};
}
// Returns true if the plain numbers are equal: exact, like comparisons of the language, and false for not a number.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE constexpr bool operator==(A a, B b) noexcept {
  return detail::raw(a) == detail::raw(b);
}
// Returns true if a is less than b.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE constexpr bool operator<(A a, B b) noexcept {
  return detail::raw(a) < detail::raw(b);
}
// Returns true if a is less than b, or equal.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE constexpr bool operator<=(A a, B b) noexcept {
  return detail::raw(a) <= detail::raw(b);
}
// Returns true if a is greater than b.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE constexpr bool operator>(A a, B b) noexcept {
  return detail::raw(a) > detail::raw(b);
}
// Returns true if a is greater than b, or equal.
template <class A, detail::StrictOperands<A> B>
PARALLAX_HOST_DEVICE constexpr bool operator>=(A a, B b) noexcept {
  return detail::raw(a) >= detail::raw(b);
}

// Returns parallax::sqrt of a strict number: the square root, rounded by itself.
template <class T>
PARALLAX_HOST_DEVICE Strict<T> root_of(Strict<T> number) noexcept {
  return {detail::root(number.value)};
}

// Type of arithmetic on stored numbers of T: rows of 16-bit numbers are summed and updated in float, with room for every one.
template <class T>
using Computed =
    std::conditional_t<std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half> || is_short_float<T>, float, T>;

namespace detail {

// Returns a stored number in its type of arithmetic; always exact.
PARALLAX_HOST_DEVICE inline float widened(__nv_bfloat16 x) noexcept { return __bfloat162float(x); }
PARALLAX_HOST_DEVICE inline float widened(__half x) noexcept { return __half2float(x); }
PARALLAX_HOST_DEVICE inline float widened(BFloat16 x) noexcept { return x; }
PARALLAX_HOST_DEVICE inline float widened(Float16 x) noexcept { return x; }
PARALLAX_HOST_DEVICE inline float widened(float x) noexcept { return x; }
PARALLAX_HOST_DEVICE inline double widened(double x) noexcept { return x; }

// Returns x rounded to T, to the nearest, ties to even.
template <class T>
PARALLAX_HOST_DEVICE T narrowed(Computed<T> x) noexcept {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  else if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  else return T{x};
}

}  // namespace detail
}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
