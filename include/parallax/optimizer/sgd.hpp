// Stochastic gradient descent.
#pragma once

#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// p -= learning_rate · g
struct Sgd {
  using axis = optimizer_axis;
  using element_slots = slots<>;
  static constexpr std::string_view name = "Sgd";
  static constexpr std::string_view field_names[] = {"learning_rate"};

  double learning_rate = 0.01;

  struct Rule {
    double rate;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= static_cast<decltype(g)>(rate) * g;
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
