// Adagrad: Duchi, Hazan and Singer, JMLR 12 (2011), algorithm 1 with diagonal matrices.
#pragma once

#include <tuple>

#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// sum += g², p -= learning_rate · g / (sqrt(sum) + epsilon); sum starts as `initial_accumulator`.
struct Adagrad {
  using axis = optimizer_axis;
  using element_slots = slots<scalar>;
  static constexpr std::string_view slot_names[] = {"sum"};
  static constexpr std::string_view name = "Adagrad";
  static constexpr std::string_view field_names[] = {"learning_rate", "initial_accumulator", "epsilon"};

  double learning_rate = 0.01;
  double initial_accumulator = 0.0;
  double epsilon = 1e-10;

  auto initial() const { return std::tuple{initial_accumulator}; }

  struct Rule {
    double rate, epsilon;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& sum) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      sum += g * g;
      p -= static_cast<T>(rate) * g / (parallax::sqrt(sum) + static_cast<T>(epsilon));
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate, epsilon}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
