// FTRL-proximal: McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013, algorithm 1. Included by
// parallax.hpp; a variable calls its rule once for every element of an update.
#pragma once

#include <tuple>

#include "parallax/detail/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// FTRL-proximal, for sparse linear models with weights that should be exactly 0 if they help little. s = (sqrt(n + g²) -
// sqrt(n)) / learning_rate, z += g - s · p, n += g², and p minimises the sum so far: 0 if |z| <= l1, else (sign(z) · l1 - z) /
// ((beta + sqrt(n)) / learning_rate + l2). z begins as 0, n as `initial_accumulator`. `Semantics` says the fate of values from
// outside (first ones, assigned or scaled ones) and of elements with a gradient of 0:
//   rests  z follows such values, and training goes on from there; an element without a gradient rests
//   lazy   p follows z, also of an element without a gradient in a row named by a step: such values are forgotten, as by
//          TensorFlow's FtrlOptimizer
template <Untouched Semantics>
struct BasicFtrl {
  // Axis of the option.
  using axis = optimizer_axis;
  // Two numbers an element: z and n.
  using element_slots = slot_types<scalar, scalar>;
  // z, the sum of g - s · p over all steps so far; n, the sum of g².
  static constexpr std::string_view slot_names[] = {"z", "n"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyFtrl" : "Ftrl";
  // Choice of the alias: rests or lazy.
  static constexpr Untouched untouched = Semantics;
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"learning_rate", "beta", "l1", "l2", "initial_accumulator", "follow"};

  // Size of the moves of elements, α: 0.01 to 1, and not 0.
  double learning_rate = 0.1;  // α
  // Damps the first updates, β: about 1.
  double beta = 1.0;
  // Weight of the penalty on |p|, λ₁, which makes parameters 0: from 0 on.
  double l1 = 0.0, l2 = 0.0;  // λ₂, weight of the penalty on p² / 2: from 0 on
  // First value of every n: 0 to 0.1; the greater, the smaller the first updates.
  double initial_accumulator = 0.0;
  // A flag: z is made of p in every step that moves an element, instead of being summed. In exact arithmetic both are equal,
  // after any p and settings. A variable sees to it by itself once a setting has changed after its first update. It is of use
  // if a trainer writes parameters in place, and of no effect with the lazy version.
  bool follow = false;

  // Returns the first values: 0 of z, and the setting of n.
  auto initial() const { return std::tuple{0.0, initial_accumulator}; }
  // Returns the settings by which an element moves on from its p: its z was summed by others.
  BasicFtrl after_change() const requires(Semantics == Untouched::rests) {
    BasicFtrl settings = *this;
    settings.follow = true;
    return settings;
  }

  // Rule of one step for an element.
  struct Rule {
    // A hint to a device: a thread holds z from before, and z made of p.
    static constexpr bool large = Semantics == Untouched::rests;
    double rate,  // learning_rate
        inverse,  // 1 / learning_rate
        beta,     // as the setting
        l1,       // as the setting
        l2;       // as the setting
    bool follow;  // as the setting

    // Adds g to z and its square to n, and sets p to the minimum; with g = 0 it changes nothing, unless it is lazy.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& z, auto& n) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      constexpr bool rests = Semantics == Untouched::rests;
      T const more = n + g * g;
      T const root = parallax::sqrt(more), before = parallax::sqrt(n);
      T const held = rests && follow ? summed<T>(p, z, before) : z;
      T const pulled = held + (g - (root - before) / static_cast<T>(rate) * p);
      T const bound = pulled < T{0} ? static_cast<T>(-l1) : static_cast<T>(l1);
      T const inside = (bound - pulled) / ((static_cast<T>(beta) + root) / static_cast<T>(rate) + static_cast<T>(l2));
      T const size = pulled < T{0} ? -pulled : pulled;
      bool const stays = rests && g == T{0};
      p = stays ? p : size <= static_cast<T>(l1) ? T{0} : inside;
      z = stays ? z : pulled;
      n = more;
    }
    // Sets z such that the minimum is at p.
    template <class T>
    PARALLAX_HOST_DEVICE void adopt(T p, T& z, T& n) const noexcept requires(Semantics == Untouched::rests) {
      z = summed<T>(p, z, parallax::sqrt(n));
    }
    // Returns the sum z with its minimum at p; of a p of 0 there are many, and the nearest to z is taken.
    template <class T>
    PARALLAX_HOST_DEVICE T summed(T p, T z, T root) const noexcept {
      PARALLAX_NO_CONTRACT
      T const edge = static_cast<T>(l1), other = static_cast<T>(-l1);
      T const pull = p * ((static_cast<T>(beta) + root) * static_cast<T>(inverse) + static_cast<T>(l2));
      T const inside = z < other ? other : z > edge ? edge : z;
      return p < T{0} ? edge - pull : p > T{0} ? other - pull : inside;
    }
  };
  // Returns the rule of a step. It depends on the settings alone. Throws Error (invalid_argument) for a learning rate of 0 or
  // less, by which it would divide, and for another setting below 0.
  Rule at(std::int64_t /*step*/) const {
    if (!(learning_rate > 0)) detail::refuse_setting(name, field_names[0], learning_rate, "more than 0");
    double const others[] = {beta, l1, l2, initial_accumulator};
    for (int i = 0; i < 4; ++i)
      if (!(others[i] >= 0)) detail::refuse_setting(name, field_names[i + 1], others[i], "0 or more");
    return {learning_rate, 1 / learning_rate, beta, l1, l2, follow};
  }
};

// FTRL that trains on from values from outside. Elements without a gradient rest: sparse and dense updates are equal.
using Ftrl = BasicFtrl<Untouched::rests>;
// FTRL as in TensorFlow. Values from outside are forgotten by all elements of a row named by a step, or of a dense variable.
using LazyFtrl = BasicFtrl<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
