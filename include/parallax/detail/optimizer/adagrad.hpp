// Adagrad: Duchi, Hazan and Singer, JMLR 12 (2011), algorithm 1 with diagonal matrices. Included by parallax.hpp; a variable
// calls its rule once for every element of an update.
#pragma once

#include <tuple>

#include "parallax/detail/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Adagrad: sum += g², p -= learning_rate · g / (sqrt(sum) + epsilon). Elements that gradients reach rarely keep a large rate,
// which suits embedding tables. An element untouched by a step rests: sparse and dense updates are equal.
struct Adagrad {
  // Axis of the option.
  using axis = optimizer_axis;
  // One number an element.
  using element_slots = slot_types<scalar>;
  // sum, of the squares of all gradients so far.
  static constexpr std::string_view slot_names[] = {"sum"};
  // Name of the type, in messages and archives.
  static constexpr std::string_view name = "Adagrad";
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"learning_rate", "initial_accumulator", "epsilon"};

  // Rate of the first steps: 0.01 to 0.1.
  double learning_rate = 0.01;
  // First value of every sum: 0 to 0.1; the greater, the smaller the first updates.
  double initial_accumulator = 0.0;
  // Keeps the root from vanishing: 1e-10 to 1e-7.
  double epsilon = 1e-10;

  // Returns the first value of sum. The variable asks for it as it is made.
  auto initial() const { return std::tuple{initial_accumulator}; }

  // Rule of one step for an element.
  struct Rule {
    double rate,  // learning_rate
        epsilon;  // as the setting

    // Adds g² to sum, and moves p by g over its root.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& sum) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      sum += g * g;
      p -= static_cast<T>(rate) * g / (parallax::sqrt(sum) + static_cast<T>(epsilon));
    }
  };
  // Returns the rule of a step. It depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {learning_rate, epsilon}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
