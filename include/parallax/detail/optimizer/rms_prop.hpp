// RMSProp: Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5 (2012); centred: Graves, arXiv 1308.0850.
// Included by parallax.hpp; a variable calls the rule once for every element of an update.
#pragma once

#include "parallax/detail/core/math.hpp"
#include "parallax/detail/optimizer/resting.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// RMSProp: v += (1 - decay)(g² - v), p -= learning_rate · g / (sqrt(v) + epsilon). The slot v begins as 0, and stays
// uncorrected.
template <Untouched Semantics>
struct BasicRmsProp {
  // Axis of the option.
  using axis = optimizer_axis;
  // One number an element.
  using element_slots = slot_types<scalar>;
  // v, the mean square of gradients.
  static constexpr std::string_view slot_names[] = {"v"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyRmsProp" : "RmsProp";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"learning_rate", "decay", "epsilon"};

  // Approximate move of an element in a step: 1e-4 to 1e-2.
  double learning_rate = 0.01;
  // Share of the old mean that a step keeps: 0.9 to 0.99.
  double decay = 0.99;
  // Keeps the root from vanishing: 1e-10 to 1e-6.
  double epsilon = 1e-8;

  // Rule of one step for an element.
  struct Rule : detail::RuleOfMeans {
    // Moves v by g², then p by g over its root.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      v += static_cast<T>(share) * (g * g - v);
      p -= static_cast<T>(rate) * g / (parallax::sqrt(v) + static_cast<T>(epsilon));
    }

    // Returns true if the slots are finite: then the update is 0.
    template <class T>
    PARALLAX_HOST_DEVICE bool rests(T, T v) const noexcept {
      return detail::resting::is_mean(v);
    }
  };
  // Returns the rule of a step. It depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {{learning_rate, 1 - decay, epsilon}}; }
};

// Exact: the mean square of a row that a step does not touch decays, too.
using RmsProp = BasicRmsProp<Untouched::moves>;
// Lazy: it decays only in the steps that touch the row.
using LazyRmsProp = BasicRmsProp<Untouched::lazy>;

// Centred RMSProp: v += (1 - decay)(g² - v), m += (1 - decay)(g - m), p -= learning_rate · g / (sqrt(v - m²) + epsilon). It
// divides by the gradients' deviation from their mean. A v - m² negative by rounding is 0. The slots v and m begin as 0.
template <Untouched Semantics>
struct BasicCenteredRmsProp {
  // Axis of the option.
  using axis = optimizer_axis;
  // Two numbers an element: v and m.
  using element_slots = slot_types<scalar, scalar>;
  // v, the mean square of gradients; m, their mean.
  static constexpr std::string_view slot_names[] = {"v", "m"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyCenteredRmsProp" : "CenteredRmsProp";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;

  // Approximate move of an element in a step: 1e-4 to 1e-2.
  double learning_rate = 0.01;
  // Share of the old means that a step keeps: 0.9 to 0.99.
  double decay = 0.99;
  // Keeps the root from vanishing if gradients hardly differ: 1e-10 to 1e-4.
  double epsilon = 1e-8;

  // Rule of one step for an element.
  struct Rule : detail::RuleOfMeans {
    // Moves v and m by g, then p by g over the deviation.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& v, auto& m) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      v += static_cast<T>(share) * (g * g - v);
      m += static_cast<T>(share) * (g - m);
      T const variance = v - m * m;
      T const positive = variance < T{0} ? T{0} : variance;
      p -= static_cast<T>(rate) * g / (parallax::sqrt(positive) + static_cast<T>(epsilon));
    }

    // Returns true if the slots are finite: then the update is 0.
    template <class T>
    PARALLAX_HOST_DEVICE bool rests(T, T v, T m) const noexcept {
      return detail::resting::is_mean(v) && detail::resting::is_mean(m < T{0} ? -m : m);
    }
  };
  // Returns the rule of a step. It depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {{learning_rate, 1 - decay, epsilon}}; }
};

// Exact: both means of a row that a step does not touch decay, too.
using CenteredRmsProp = BasicCenteredRmsProp<Untouched::moves>;
// Lazy: they decay only in the steps that touch the row.
using LazyCenteredRmsProp = BasicCenteredRmsProp<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
