// LAMB: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020, algorithm 2. Included
// by parallax.hpp; a variable calls the rule in two passes, first to measure and then to move.
#pragma once

#include "parallax/detail/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// LAMB, for large batches: Adam's moments m and v, r = m̂ / (sqrt(v̂) + epsilon) + weight_decay · p, p -= learning_rate · r ·
// |p| / |r|. The norms are taken over the whole of a dense variable and over each row of a table; if one is 0 the ratio is 1.
// The slots m and v begin as 0.
template <Untouched Semantics>
struct BasicLamb {
  // Axis of the option.
  using axis = optimizer_axis;
  // Two numbers an element: m and v.
  using element_slots = slot_types<scalar, scalar>;
  // m, the mean of gradients; v, the mean of their squares.
  static constexpr std::string_view slot_names[] = {"m", "v"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyLamb" : "Lamb";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;
  // Norms are of all elements of a dense variable, and of each row of a table.
  static constexpr Unit unit = Unit::tensor;
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"};

  // Share of its own norm by which a tensor moves in a step: 1e-4 to 1e-2.
  double learning_rate = 0.001;
  // Share of the old m that a step keeps: about 0.9.
  double beta1 = 0.9, beta2 = 0.999;  // share of the old v: 0.99 to 0.9999
  // Keeps the root from vanishing: 1e-8 to 1e-6.
  double epsilon = 1e-6;
  // Share of p added to its direction: 0 to 0.1.
  double weight_decay = 0.01;

  // Rule of the elements once the norms are known: the result of `Rule::finish`. `Directions`: the Rule.
  template <class Directions>
  struct Trusted {
    // learning_rate · |p| / |r|.
    double rate;
    // Source of r of an element.
    Directions directions;

    // Moves p against r. The moments have moved already: g is not needed.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto /*g*/, auto& m, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = std::remove_cvref_t<decltype(p)>;
      p -= static_cast<T>(rate) * directions.direction(p, m, v);
    }
  };
  // Measures of one step for an element; `finish` makes the rule that moves one.
  struct Rule {
    double rate,           // learning_rate
        first,             // 1 - beta1
        second,            // 1 - beta2
        first_correction,  // 1 - beta1^t
        root,              // sqrt(1 - beta2^t)
        epsilon,           // as the setting
        decay;             // weight_decay

    // Returns r of an element with moments that have moved.
    template <class T>
    PARALLAX_HOST_DEVICE T direction(T p, T m, T v) const noexcept {
      PARALLAX_NO_CONTRACT
      return m / static_cast<T>(first_correction) / (parallax::sqrt(v) / static_cast<T>(root) + static_cast<T>(epsilon)) +
             static_cast<T>(decay) * p;
    }
    // Moves m and v by g; returns the squares of p and of r, for the norms. Leaves p alone.
    template <class T>
    PARALLAX_HOST_DEVICE Measures<2> measure(T& p, T g, T& m, T& v) const noexcept {
      PARALLAX_NO_CONTRACT
      m += static_cast<T>(first) * (g - m);
      v += static_cast<T>(second) * (g * g - v);
      double const r = static_cast<double>(direction(p, m, v)), old = static_cast<double>(p);
      return {old * old, r * r};
    }
    // Returns the rule by the squares of both norms, of all elements of the tensor. Their number does not matter.
    PARALLAX_HOST_DEVICE Trusted<Rule> finish(Measures<2> const& squares, std::int64_t /*count*/) const noexcept {
      bool const both = squares[0] > 0 && squares[1] > 0;
      return {both ? rate * (parallax::sqrt(squares[0]) / parallax::sqrt(squares[1])) : rate, *this};
    }
  };

  // Returns the rule of a step of the variable, 1 for its first.
  Rule at(std::int64_t step) const {
    auto const t = static_cast<double>(step);
    return {learning_rate, 1 - beta1, 1 - beta2, 1 - detail::pow(beta1, t), detail::square_root(1 - detail::pow(beta2, t)),
            epsilon, weight_decay};
  }
};

// Exact: rows that a step does not touch move, too.
using Lamb = BasicLamb<Untouched::moves>;
// Lazy: rows that a step does not touch are left alone. On dense variables equal to Lamb.
using LazyLamb = BasicLamb<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
