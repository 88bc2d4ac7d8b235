// Adadelta: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", arXiv 1212.5701 (2012), algorithm 1. Included by
// parallax.hpp; a variable calls its rule once for every element of an update.
#pragma once

#include "parallax/detail/core/math.hpp"
#include "parallax/detail/optimizer/resting.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Adadelta, if no learning rate is known to be good: v += (1 - decay)(g² - v), d = sqrt(u + epsilon) / sqrt(v + epsilon) · g, u
// += (1 - decay)(d² - u), p -= learning_rate · d. It divides by the mean of the squares of gradients, v, and multiplies by the
// mean of the squares of updates, u; both slots begin as 0. `Semantics` says the fate of rows that a step does not touch.
template <Untouched Semantics>
struct BasicAdadelta {
  // Axis of the option.
  using axis = optimizer_axis;
  // Two numbers an element: v and u.
  using element_slots = slot_types<scalar, scalar>;
  // v, the mean square of gradients; u, the mean square of updates.
  static constexpr std::string_view slot_names[] = {"v", "u"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdadelta" : "Adadelta";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;

  // Factor of updates: 1 in the paper, less if they are too large.
  double learning_rate = 1.0;
  // Share of the old means that a step keeps, ρ: 0.9 to 0.99.
  double decay = 0.9;  // ρ
  // Keeps the first updates from being 0, and roots from vanishing: 1e-8 to 1e-6.
  double epsilon = 1e-6;

  // Rule of one step for an element.
  struct Rule : detail::RuleOfMeans {
    // Moves p and both means by g, in the precision of the variable.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& v, auto& u) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      v += static_cast<T>(share) * (g * g - v);
      T const d = parallax::sqrt(u + static_cast<T>(epsilon)) / parallax::sqrt(v + static_cast<T>(epsilon)) * g;
      u += static_cast<T>(share) * (d * d - u);
      p -= static_cast<T>(rate) * d;
    }

    // Returns true if the slots are finite: then the update is 0.
    template <class T>
    PARALLAX_HOST_DEVICE bool rests(T, T v, T u) const noexcept {
      return detail::resting::is_mean(v) && detail::resting::is_mean(u);
    }
  };
  // Returns the rule of a step. It depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {{learning_rate, 1 - decay, epsilon}}; }
};

// Exact: the means of a row that a step does not touch decay, too.
using Adadelta = BasicAdadelta<Untouched::moves>;
// Lazy: they decay only in the steps that touch the row.
using LazyAdadelta = BasicAdadelta<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
