// Rules that minimise the penalty l1 |p| + l2 p² / 2 beside the loss in closed form, and so make parameters exactly 0: proximal
// SGD (Duchi and Singer, JMLR 10, 2009), and Adagrad as mirror descent and by dual averaging (Duchi, Hazan and Singer, JMLR 12,
// 2011). Included by parallax.hpp. In all of them exact semantics mean that the penalty moves every row in every step, and lazy
// ones that it moves a row in the steps that touch it; on dense variables they are the same.
#pragma once

#include <tuple>

#include "parallax/detail/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace detail {
// x, nearer to 0 by `by`, which is not negative, and not beyond it.
template <class T>
PARALLAX_HOST_DEVICE inline T shrunk(T x, T by) noexcept {
  PARALLAX_NO_CONTRACT
  T const size = x < T{0} ? -x : x;
  T const nearer = x < T{0} ? x + by : x - by;
  return size <= by ? T{0} : nearer;  // what is not a number stays so
}
}  // namespace detail

// Proximal SGD: q = p - learning_rate · g, p = sign(q) max(|q| - learning_rate · l1, 0) / (1 + learning_rate · l2). It has no
// slots.
template <Untouched Semantics>
struct BasicProximalSgd {
  // The option's axis.
  using axis = optimizer_axis;
  // Nothing is kept.
  using element_slots = slot_types<>;
  // The alias's name, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyProximalSgd" : "ProximalSgd";
  // As the alias chose: exact or lazy.
  static constexpr Untouched untouched = Semantics;

  // How far a step follows the gradient: 0.001 to 1.
  double learning_rate = 0.01;
  // The weight of |p|: from 0 on, where 0 is no penalty.
  double l1 = 0.0, l2 = 0.0;  // that of p² / 2: from 0 on

  // What one step does to an element.
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
  // The rule of a step, which depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {learning_rate, learning_rate * l1, 1 + learning_rate * l2}; }
};

// Exact: rows that a step does not touch shrink all the same.
using ProximalSgd = BasicProximalSgd<Untouched::moves>;
// Lazy: rows shrink in the steps that touch them.
using LazyProximalSgd = BasicProximalSgd<Untouched::lazy>;

// Adagrad as mirror descent: sum += g², rate = learning_rate / sqrt(sum), and the step of proximal SGD at this rate of the
// element's own. sum starts as `initial_accumulator`, which is positive.
template <Untouched Semantics>
struct BasicProximalAdagrad {
  // The option's axis.
  using axis = optimizer_axis;
  // One number an element.
  using element_slots = slot_types<scalar>;
  // sum, of the squares of all gradients so far.
  static constexpr std::string_view slot_names[] = {"sum"};
  // The alias's name, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyProximalAdagrad" : "ProximalAdagrad";
  // As the alias chose: exact or lazy.
  static constexpr Untouched untouched = Semantics;

  // The rate of the first steps: 0.01 to 0.1.
  double learning_rate = 0.01;
  // What every sum begins with; not 0, by whose root a step would divide: about 0.1.
  double initial_accumulator = 0.1;
  // The weight of |p|: from 0 on, where 0 is no penalty.
  double l1 = 0.0, l2 = 0.0;  // that of p² / 2: from 0 on

  // The first value of sum, which the variable asks for as it is made.
  auto initial() const { return std::tuple{initial_accumulator}; }

  // What one step does to an element.
  struct Rule {
    double rate,  // learning_rate
        l1,       // as the setting
        l2;       // as the setting

    // Adds g² to sum, and takes the step of proximal SGD at the rate that comes of it.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& sum) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      sum += g * g;
      T const own = static_cast<T>(rate) / parallax::sqrt(sum);
      p = detail::shrunk<T>(p - own * g, own * static_cast<T>(l1)) / (T{1} + own * static_cast<T>(l2));
    }
  };
  // The rule of a step, which depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {learning_rate, l1, l2}; }
};

// Exact: rows that a step does not touch shrink all the same.
using ProximalAdagrad = BasicProximalAdagrad<Untouched::moves>;
// Lazy: rows shrink in the steps that touch them.
using LazyProximalAdagrad = BasicProximalAdagrad<Untouched::lazy>;

// Adagrad by dual averaging. In step t: sum += g, squares += g², and p is what minimises sum · p + t (l1 |p| + l2 p² / 2) +
// sqrt(squares) p² / (2 learning_rate), which is learning_rate · sign(-sum) max(|sum| - l1 · t, 0) / (learning_rate · l2 · t +
// sqrt(squares)). squares starts as `initial_accumulator`, which is positive. sum follows values from outside, first ones and
// assigned ones, so that the next step starts from there. A rate that changes multiplies every p, for p is learning_rate times
// an average.
template <Untouched Semantics>
struct BasicAdagradDa {
  // The option's axis.
  using axis = optimizer_axis;
  // Two numbers an element.
  using element_slots = slot_types<scalar, scalar>;
  // sum, of all gradients so far; squares, of their squares.
  static constexpr std::string_view slot_names[] = {"sum", "squares"};
  // The alias's name, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdagradDa" : "AdagradDa";
  // As the alias chose: exact or lazy.
  static constexpr Untouched untouched = Semantics;

  // The rate of the first steps: 0.01 to 0.1.
  double learning_rate = 0.01;
  // What `squares` begins with; not 0, by whose root a step would divide: about 0.1.
  double initial_accumulator = 0.1;
  // The weight of |p| in each step: from 0 on, where 0 is no penalty.
  double l1 = 0.0, l2 = 0.0;  // that of p² / 2: from 0 on

  // The first values: 0 of sum, and the setting of squares.
  auto initial() const { return std::tuple{0.0, initial_accumulator}; }

  // What one step does to an element.
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
  // The rule of a step of the variable, 1 for its first: the penalties grow with the steps.
  Rule at(std::int64_t step) const {
    auto const t = static_cast<double>(step);
    return {learning_rate, l1 * t, learning_rate * l2 * t};
  }
};

// Exact: rows that a step does not touch are minimised again all the same, with the penalties of that step.
using AdagradDa = BasicAdagradDa<Untouched::moves>;
// Lazy: only in the steps that touch them, with the penalties of those steps.
using LazyAdagradDa = BasicAdagradDa<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
