// Macros of the library: device annotations, guards that keep floating-point contraction out, and a promise to loops. The room
// `core` is the base of all others: errors, options, clocks, views, archives, and these macros.
#pragma once

#include <cstddef>  // it puts the standard library's names in order

#include "parallax/version.hpp"

// Errors are exceptions. Without them clang would go on with an error for each, and g++ with its own reading of the bodies.
#if !defined(__cpp_exceptions) && !defined(__CUDACC__)
#if defined(__clang__)
#pragma clang diagnostic fatal "-W#warnings"
#warning "parallax: errors are exceptions: compile without -fno-exceptions"
#else
#error "parallax: errors are exceptions: compile without -fno-exceptions"
#undef PARALLAX_COMPILED
#define PARALLAX_COMPILED
#endif
#endif

// A macro over a word that is called everywhere below would break these calls, and the standard library's headers with them.
#if defined(min) || defined(max) || defined(move) || defined(clear) || defined(erase)
#error \
    "parallax: min, max, move, clear or erase is a macro: #undef it behind the header that defines it, or include parallax before"
#endif

// Prefix of every body in a *-inl.hpp: `inline` in programs, whose headers include these files at their ends; empty in the
// sources of parallax::compiled, which have the bodies of all programs that define PARALLAX_COMPILED.
#if !defined(PARALLAX_INLINE)
#define PARALLAX_INLINE inline
#endif

// Prefix of a function that makes an error or its text, or runs once in a session: it is compiled for size, as is code that
// leads only there.
#define PARALLAX_COLD [[gnu::cold]]

// Rules and views are callable from device code when a CUDA compiler reads them.
#if defined(__CUDACC__)
#define PARALLAX_HOST_DEVICE __host__ __device__
#else
#define PARALLAX_HOST_DEVICE
#endif

// A multiply-add contracted on one machine and not on another changes the last bit. g++ takes the setting of the function into
// which the arithmetic is inlined, so the loops around the rules stand between BEGIN and END. clang takes the setting of the
// block with the arithmetic, so every rule of ours (and yours, if its bits matter) opens with NO_CONTRACT. Under -ffast-math
// (-Ofast) a sum would be formed in another order as well, a quotient be made of a reciprocal, and a NaN be taken for a number:
// code between BEGIN and END is compiled without it.
#if defined(__clang__)
#if defined(__x86_64__) || defined(__i386__) || defined(__powerpc64__)
#define PARALLAX_STRICT_ARITHMETIC_BEGIN _Pragma("float_control(precise, on, push)")
#define PARALLAX_STRICT_ARITHMETIC_END _Pragma("float_control(pop)")
// There a backend contracts in spite of both, unless it is told not to: -ffast-math implies -ffp-contract=fast.
#if defined(__FAST_MATH__) && (defined(__FMA__) || defined(__powerpc64__)) && !defined(PARALLAX_FP_CONTRACT_OFF)
#pragma GCC warning \
    "parallax: clang's -ffast-math contracts our arithmetic: add -ffp-contract=off and -DPARALLAX_FP_CONTRACT_OFF, which says so"
#endif
#else
#define PARALLAX_STRICT_ARITHMETIC_BEGIN
#define PARALLAX_STRICT_ARITHMETIC_END
#if defined(__FAST_MATH__)
#pragma GCC warning "parallax: on this target clang cannot keep -ffast-math from our arithmetic: build with -fno-fast-math"
#endif
#endif
#define PARALLAX_NO_CONTRACT _Pragma("clang fp contract(off)")
#elif defined(__CUDACC__)  // hands them on to g++
#define PARALLAX_STRICT_ARITHMETIC_BEGIN                                                     \
  _Pragma("nv_diagnostic push") _Pragma("nv_diag_suppress 1675") _Pragma("GCC push_options") \
      _Pragma("GCC optimize(\"no-fast-math,fp-contract=off\")")
// Ends the effect of BEGIN. The two stand in pairs at namespace scope, around loops and rules.
#define PARALLAX_STRICT_ARITHMETIC_END _Pragma("GCC pop_options") _Pragma("nv_diagnostic pop")
// First line of a rule's body: its arithmetic is not contracted, in any function into which it is inlined. Only clang needs it
// there.
#define PARALLAX_NO_CONTRACT
#else
#define PARALLAX_STRICT_ARITHMETIC_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"no-fast-math,fp-contract=off\")")
#define PARALLAX_STRICT_ARITHMETIC_END _Pragma("GCC pop_options")
#define PARALLAX_NO_CONTRACT
#endif

// Prefix of a function compiled for vectors of 32 bytes, on which the compiler may not count, and called if may_widen and
// machine_is_wider() say so. The bits are unchanged, for AVX2 alone contracts nothing. There a prefetch for writing takes a
// line away from the cores that have read it; processors with AVX2 but no PREFETCHW take it for no operation. A function
// without prefetches needs it only if the compiler does not take such vectors anyway (`is_wide`).
#if !defined(__x86_64__) || defined(__CUDACC__) || (defined(__AVX2__) && defined(__PRFCHW__))
#define PARALLAX_WIDER
#elif defined(__AVX2__)
#define PARALLAX_WIDER __attribute__((target("prfchw")))
#else
#define PARALLAX_WIDER __attribute__((target("avx2,prfchw")))
#endif
namespace parallax::inline v0_2::detail {
// True if the compiler takes vectors of 32 bytes everywhere.
#if defined(__AVX2__)
inline constexpr bool is_wide = true;
#else
inline constexpr bool is_wide = false;
#endif
#if defined(__x86_64__) && !defined(__CUDACC__)
// True if functions marked PARALLAX_WIDER may be called at all on this architecture: fixed as it is compiled.
inline constexpr bool may_widen = true;
// Returns true if the program's processor has the instructions of PARALLAX_WIDER. Callers ask it once they know `may_widen`.
inline bool machine_is_wider() { return is_wide || __builtin_cpu_supports("avx2"); }
#else
inline constexpr bool may_widen = false;
constexpr bool machine_is_wider() { return false; }
#endif
}  // namespace parallax::detail
