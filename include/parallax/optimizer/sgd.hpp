// Stochastic gradient descent: Robbins and Monro, "A Stochastic Approximation Method", Ann. Math. Statist. 22 (1951). The
// optimizer of a Variable that names none; the variable calls its rule once for every element of an update.
#pragma once

#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// SGD: p -= learning_rate · g. It keeps nothing, and rows untouched by a step rest, so sparse and dense updates are the same
// thing.
struct Sgd {
  // The option's axis.
  using axis = optimizer_axis;
  // Nothing is kept.
  using element_slots = slot_types<>;
  // The type's name, in messages and archives.
  static constexpr std::string_view name = "Sgd";
  // The settings as messages name them.
  static constexpr std::string_view field_names[] = {"learning_rate"};

  // The step size, as a factor of the gradient: 0.001 to 1.
  double learning_rate = 0.01;

  // The effect of one step on an element.
  struct Rule {
    // learning_rate.
    double rate;

    // Moves p against g.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= static_cast<decltype(g)>(rate) * g;
    }
  };
  // Returns the rule of a step, which depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {learning_rate}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
