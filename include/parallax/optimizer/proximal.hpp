// Rules that minimise the penalty l1 |p| + l2 p² / 2 beside the loss in closed form, and so make parameters exactly 0: proximal
// SGD (Duchi and Singer, JMLR 10, 2009), and Adagrad as mirror descent and by dual averaging (Duchi, Hazan and Singer, JMLR 12,
// 2011).
#pragma once

#include <tuple>

#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

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

// Exact, in all that follows: the penalty moves every row in every step. Lazy: it moves a row in the steps that touch it. On
// dense variables they are the same.

// q = p - learning_rate · g, p = sign(q) max(|q| - learning_rate · l1, 0) / (1 + learning_rate · l2).
template <Untouched Semantics>
struct BasicProximalSgd {
  using axis = optimizer_axis;
  using element_slots = slots<>;
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyProximalSgd" : "ProximalSgd";
  static constexpr Untouched untouched = Semantics;

  double learning_rate = 0.01;
  double l1 = 0.0, l2 = 0.0;

  struct Rule {
    double rate, threshold, divisor;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      p = detail::shrunk<T>(p - static_cast<T>(rate) * g, static_cast<T>(threshold)) / static_cast<T>(divisor);
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate, learning_rate * l1, 1 + learning_rate * l2}; }
};

using ProximalSgd = BasicProximalSgd<Untouched::moves>;
using LazyProximalSgd = BasicProximalSgd<Untouched::lazy>;

// sum += g², rate = learning_rate / sqrt(sum), and the step of proximal SGD at this rate of the element's own. sum starts as
// `initial_accumulator`, which is positive.
template <Untouched Semantics>
struct BasicProximalAdagrad {
  using axis = optimizer_axis;
  using element_slots = slots<scalar>;
  static constexpr std::string_view slot_names[] = {"sum"};
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyProximalAdagrad" : "ProximalAdagrad";
  static constexpr Untouched untouched = Semantics;

  double learning_rate = 0.01;
  double initial_accumulator = 0.1;
  double l1 = 0.0, l2 = 0.0;

  auto initial() const { return std::tuple{initial_accumulator}; }

  struct Rule {
    double rate, l1, l2;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& sum) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      sum += g * g;
      T const own = static_cast<T>(rate) / parallax::sqrt(sum);
      p = detail::shrunk<T>(p - own * g, own * static_cast<T>(l1)) / (T{1} + own * static_cast<T>(l2));
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate, l1, l2}; }
};

using ProximalAdagrad = BasicProximalAdagrad<Untouched::moves>;
using LazyProximalAdagrad = BasicProximalAdagrad<Untouched::lazy>;

// Dual averaging. In step t: sum += g, squares += g², and p is what minimises sum · p + t (l1 |p| + l2 p² / 2) +
// sqrt(squares) p² / (2 learning_rate), which is learning_rate · sign(-sum) max(|sum| - l1 · t, 0) / (learning_rate · l2 · t +
// sqrt(squares)). squares starts as `initial_accumulator`, which is positive. A first value of p is forgotten in the first
// step that moves it: it should be 0.
template <Untouched Semantics>
struct BasicAdagradDa {
  using axis = optimizer_axis;
  using element_slots = slots<scalar, scalar>;
  static constexpr std::string_view slot_names[] = {"sum", "squares"};
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdagradDa" : "AdagradDa";
  static constexpr Untouched untouched = Semantics;

  double learning_rate = 0.01;
  double initial_accumulator = 0.1;
  double l1 = 0.0, l2 = 0.0;

  auto initial() const { return std::tuple{0.0, initial_accumulator}; }

  struct Rule {
    double rate, threshold, pull;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& sum, auto& squares) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      sum += g;
      squares += g * g;
      p = static_cast<T>(rate) * detail::shrunk<T>(-sum, static_cast<T>(threshold)) /
          (static_cast<T>(pull) + parallax::sqrt(squares));
    }
  };
  Rule at(std::int64_t step) const {
    auto const t = static_cast<double>(step);
    return {learning_rate, l1 * t, learning_rate * l2 * t};
  }
};

using AdagradDa = BasicAdagradDa<Untouched::moves>;
using LazyAdagradDa = BasicAdagradDa<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
