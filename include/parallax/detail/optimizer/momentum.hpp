// Momentum, classical and Nesterov's: Polyak, USSR Comp. Math. 4 (1964); Sutskever, Martens, Dahl and Hinton, ICML 2013.
// Included by parallax.hpp; a variable calls the rule once for every element of an update.
#pragma once

#include "parallax/detail/optimizer/resting.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Look of an update: ahead, along the velocity (nesterov), or not, with the velocity alone (none).
enum class LookAhead : bool { none, nesterov };

// v = momentum · v + g, p -= learning_rate · v; with Nesterov's look-ahead p -= learning_rate · (g + momentum · v). The slot v,
// a velocity, begins as 0. `Semantics` says the fate of rows that a step does not touch.
template <LookAhead Look, Untouched Semantics>
struct BasicMomentum {
  // Axis of the option.
  using axis = optimizer_axis;
  // One number an element.
  using element_slots = slot_types<scalar>;
  // v, the velocity: gradients so far, each `momentum` times less per step.
  static constexpr std::string_view slot_names[] = {"v"};
  // True if rows that a step does not touch are left alone.
  static constexpr bool lazy = Semantics == Untouched::lazy;
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name =
      Look == LookAhead::none ? (lazy ? "LazyMomentum" : "Momentum") : (lazy ? "LazyNesterov" : "Nesterov");
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"learning_rate", "momentum"};

  // Factor of velocities: 0.001 to 0.1.
  double learning_rate = 0.01;
  // Share of the velocity that a step keeps: 0.5 to 0.99.
  double momentum = 0.9;

  // Rule of one step for an element.
  struct Rule {
    double rate,   // learning_rate
        momentum;  // as the setting

    // Adds g to the rest of v, and moves p by it.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      v = static_cast<T>(momentum) * v + g;
      if constexpr (Look == LookAhead::none) p -= static_cast<T>(rate) * v;
      else p -= static_cast<T>(rate) * (g + static_cast<T>(momentum) * v);
    }

    // Returns the pace. A zero gradient makes updates of at most rate · |v|, and v falls by the momentum.
    Pace pace() const noexcept {
      namespace resting = detail::resting;
      if (!(momentum >= 0) || !resting::is_share(1 - momentum) || !resting::is_least(rate, 0)) return {};
      if (!(rate <= (1 - momentum) * resting::most_gain)) return {};
      return {rate, resting::left_at_most(1 - momentum)};
    }
    // Returns true if the other rule has an equal momentum.
    bool alike(Rule const& other) const noexcept { return momentum == other.momentum; }
    // Returns true if p does not show the update without a gradient.
    template <class T>
    PARALLAX_HOST_DEVICE bool rests(T p, T v) const noexcept {
      return detail::resting::is_unseen(p, static_cast<T>(rate), faded(0, v), T{1});
    }
    // Returns v after a step without a gradient.
    template <class T>
    PARALLAX_HOST_DEVICE T faded(std::size_t, T v) const noexcept {
      PARALLAX_NO_CONTRACT
      return static_cast<T>(momentum) * v + T{0};
    }
  };
  // Returns the rule of a step. It depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {learning_rate, momentum}; }
};

// Exact, classical: rows that a step does not touch go on moving, as in the dense variable.
using Momentum = BasicMomentum<LookAhead::none, Untouched::moves>;
// Exact, with Nesterov's look-ahead.
using Nesterov = BasicMomentum<LookAhead::nesterov, Untouched::moves>;
// Lazy, classical: rows that a step does not touch are left alone, their velocity included.
using LazyMomentum = BasicMomentum<LookAhead::none, Untouched::lazy>;
// Lazy, with Nesterov's look-ahead.
using LazyNesterov = BasicMomentum<LookAhead::nesterov, Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
