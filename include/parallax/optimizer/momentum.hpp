// Momentum, classical and Nesterov's: Polyak, USSR Comp. Math. 4 (1964); Sutskever, Martens, Dahl and Hinton, ICML 2013.
#pragma once

#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

enum class LookAhead : bool { none, nesterov };

// v = momentum · v + g, p -= learning_rate · v; with Nesterov's look-ahead p -= learning_rate · (g + momentum · v).
template <LookAhead Look, Untouched Semantics>
struct BasicMomentum {
  using axis = optimizer_axis;
  using element_slots = slots<scalar>;
  static constexpr std::string_view slot_names[] = {"v"};
  static constexpr bool lazy = Semantics == Untouched::lazy;
  static constexpr std::string_view name =
      Look == LookAhead::none ? (lazy ? "LazyMomentum" : "Momentum") : (lazy ? "LazyNesterov" : "Nesterov");
  static constexpr Untouched untouched = Semantics;
  static constexpr std::string_view field_names[] = {"learning_rate", "momentum"};

  double learning_rate = 0.01;
  double momentum = 0.9;

  struct Rule {
    double rate, momentum;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      v = static_cast<T>(momentum) * v + g;
      if constexpr (Look == LookAhead::none) p -= static_cast<T>(rate) * v;
      else p -= static_cast<T>(rate) * (g + static_cast<T>(momentum) * v);
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate, momentum}; }
};

// Exact: rows that a step does not touch go on moving, as in the dense variable.
using Momentum = BasicMomentum<LookAhead::none, Untouched::moves>;
using Nesterov = BasicMomentum<LookAhead::nesterov, Untouched::moves>;
// Lazy: rows that a step does not touch are left alone, their velocity included.
using LazyMomentum = BasicMomentum<LookAhead::none, Untouched::lazy>;
using LazyNesterov = BasicMomentum<LookAhead::nesterov, Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
