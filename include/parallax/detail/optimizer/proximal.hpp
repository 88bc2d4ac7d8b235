// Rules that minimise the penalty l1 |p| + l2 p² / 2 beside the loss in closed form, and so make parameters exactly 0: proximal
// SGD (Duchi and Singer, JMLR 10, 2009), and Adagrad as mirror descent and by dual averaging (Duchi, Hazan and Singer, JMLR 12,
// 2011). Included by parallax.hpp. In all of them exact semantics move every row by the penalty in every step, and lazy ones in
// the steps that touch the row; on dense variables they are equal.
#pragma once

#include <tuple>

#include "parallax/detail/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace detail {
// Returns x, nearer to 0 by `by`, which is not negative, and not beyond 0.
template <class T>
PARALLAX_HOST_DEVICE inline T shrunk(T x, T by) noexcept {
  PARALLAX_NO_CONTRACT
  T const size = x < T{0} ? -x : x;
  T const nearer = x < T{0} ? x + by : x - by;
  return size <= by ? T{0} : nearer;  // a NaN stays one
}
}  // namespace detail

// Proximal SGD: q = p - learning_rate · g, p = sign(q) max(|q| - learning_rate · l1, 0) / (1 + learning_rate · l2). It has no
// slots.
template <Untouched Semantics>
struct BasicProximalSgd {
  // Axis of the option.
  using axis = optimizer_axis;
  // Nothing is kept.
  using element_slots = slot_types<>;
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyProximalSgd" : "ProximalSgd";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;

  // Factor of the gradient in a step: 0.001 to 1.
  double learning_rate = 0.01;
  // Weight of |p|: from 0 on, with 0 for no penalty.
  double l1 = 0.0, l2 = 0.0;  // weight of p² / 2: from 0 on

  // Rule of one step for an element.
  struct Rule {
    double rate,    // learning_rate
        threshold,  // learning_rate · l1
        divisor;    // 1 + learning_rate · l2

    // Moves p by g, brings it nearer to 0 by the threshold, and divides it.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      p = detail::shrunk<T>(p - static_cast<T>(rate) * g, static_cast<T>(threshold)) / static_cast<T>(divisor);
    }
  };
  // Returns the rule of a step. It depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {learning_rate, learning_rate * l1, 1 + learning_rate * l2}; }
};

// Exact: rows that a step does not touch shrink, too.
using ProximalSgd = BasicProximalSgd<Untouched::moves>;
// Lazy: rows shrink in the steps that touch them.
using LazyProximalSgd = BasicProximalSgd<Untouched::lazy>;

// Adagrad as mirror descent: sum += g², rate = learning_rate / sqrt(sum), and the step of proximal SGD at this rate of the
// element's own. sum starts as `initial_accumulator`, which is positive.
template <Untouched Semantics>
struct BasicProximalAdagrad {
  // Axis of the option.
  using axis = optimizer_axis;
  // One number an element.
  using element_slots = slot_types<scalar>;
  // sum, of the squares of all gradients so far.
  static constexpr std::string_view slot_names[] = {"sum"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyProximalAdagrad" : "ProximalAdagrad";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;

  // Rate of the first steps: 0.01 to 0.1.
  double learning_rate = 0.01;
  // First value of every sum; not 0, by whose root a step would divide: about 0.1.
  double initial_accumulator = 0.1;
  // Weight of |p|: from 0 on, with 0 for no penalty.
  double l1 = 0.0, l2 = 0.0;  // weight of p² / 2: from 0 on

  // Returns the first value of sum. The variable asks for it as it is made.
  auto initial() const { return std::tuple{initial_accumulator}; }

  // Rule of one step for an element.
  struct Rule {
    double rate,  // learning_rate
        l1,       // as the setting
        l2;       // as the setting

    // Adds g² to sum, and takes the step of proximal SGD at the rate by the new sum.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& sum) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      sum += g * g;
      T const own = static_cast<T>(rate) / parallax::sqrt(sum);
      p = detail::shrunk<T>(p - own * g, own * static_cast<T>(l1)) / (T{1} + own * static_cast<T>(l2));
    }
  };
  // Returns the rule of a step. It depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {learning_rate, l1, l2}; }
};

// Exact: rows that a step does not touch shrink, too.
using ProximalAdagrad = BasicProximalAdagrad<Untouched::moves>;
// Lazy: rows shrink in the steps that touch them.
using LazyProximalAdagrad = BasicProximalAdagrad<Untouched::lazy>;

// Adagrad by dual averaging. In step t: sum += g, squares += g², and p minimises sum · p + t (l1 |p| + l2 p² / 2) +
// sqrt(squares) p² / (2 learning_rate): p = learning_rate · sign(-sum) max(|sum| - l1 · t, 0) / (learning_rate · l2 · t +
// sqrt(squares)). squares starts as `initial_accumulator`, which is positive. sum follows values from outside, first ones and
// assigned ones: the next step starts from there. A new rate multiplies every p, for p is learning_rate times an average.
template <Untouched Semantics>
struct BasicAdagradDa {
  // Axis of the option.
  using axis = optimizer_axis;
  // Two numbers an element.
  using element_slots = slot_types<scalar, scalar>;
  // sum, of all gradients so far; squares, of their squares.
  static constexpr std::string_view slot_names[] = {"sum", "squares"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdagradDa" : "AdagradDa";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;

  // Rate of the first steps: 0.01 to 0.1.
  double learning_rate = 0.01;
  // First value of `squares`; not 0, by whose root a step would divide: about 0.1.
  double initial_accumulator = 0.1;
  // Weight of |p| in each step: from 0 on, with 0 for no penalty.
  double l1 = 0.0, l2 = 0.0;  // weight of p² / 2: from 0 on

  // Returns the first values: 0 of sum, and the setting of squares.
  auto initial() const { return std::tuple{0.0, initial_accumulator}; }

  // Rule of one step for an element.
  struct Rule {
    double rate,    // learning_rate
        threshold,  // l1 · t
        pull;       // learning_rate · l2 · t

    // Adds g and its square, and sets p to the minimum.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& sum, auto& squares) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      sum += g;
      squares += g * g;
      p = static_cast<T>(rate) * detail::shrunk<T>(-sum, static_cast<T>(threshold)) /
          (static_cast<T>(pull) + parallax::sqrt(squares));
    }
    // Sets sum such that the minimum is at p; of a p of 0 there are many, and the nearest to sum is taken.
    template <class T>
    PARALLAX_HOST_DEVICE void adopt(T p, T& sum, T& squares) const noexcept {
      PARALLAX_NO_CONTRACT
      T const edge = static_cast<T>(threshold), other = static_cast<T>(-threshold);
      T const drawn = p * ((static_cast<T>(pull) + parallax::sqrt(squares)) / static_cast<T>(rate));
      T const inside = sum < other ? other : sum > edge ? edge : sum;
      sum = p < T{0} ? edge - drawn : p > T{0} ? other - drawn : inside;
    }
  };
  // Returns the rule of a step of the variable, 1 for its first: the penalties grow with the steps.
  Rule at(std::int64_t step) const {
    auto const t = static_cast<double>(step);
    return {learning_rate, l1 * t, learning_rate * l2 * t};
  }
};

// Exact: rows untouched by a step are minimised again, too, with the penalties of this step.
using AdagradDa = BasicAdagradDa<Untouched::moves>;
// Lazy: only in the steps that touch them, with the penalties of these steps.
using LazyAdagradDa = BasicAdagradDa<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
