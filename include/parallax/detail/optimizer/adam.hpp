// Adam and AdamW, with exact and with lazy sparse semantics: Kingma and Ba, ICLR 2015, algorithm 1. Included by parallax.hpp; a
// variable calls the rule once for every element of an update.
#pragma once

#include "parallax/detail/core/math.hpp"
#include "parallax/detail/optimizer/resting.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Adam: m += (1 - beta1)(g - m), v += (1 - beta2)(g² - v), p -= rate · m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon) with rate =
// learning_rate / (1 - beta1^t) in step t, 1 for the first. The slots m and v begin as 0. `Semantics` says the fate of rows
// that a step does not touch.
template <Untouched Semantics>
struct BasicAdam {
  // Axis of the option.
  using axis = optimizer_axis;
  // Two numbers an element: m and v.
  using element_slots = slot_types<scalar, scalar>;
  // m, the mean of gradients; v, the mean of their squares.
  static constexpr std::string_view slot_names[] = {"m", "v"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdam" : "Adam";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"learning_rate", "beta1", "beta2", "epsilon"};

  // Approximate move of an element in a step: 1e-4 to 1e-2.
  double learning_rate = 0.001;
  // Share of the old m that a step keeps: 0.8 to 0.95.
  double beta1 = 0.9, beta2 = 0.999;  // share of the old v: 0.98 to 0.9999
  // Keeps the root from vanishing; greater values damp rare large steps: 1e-8 to 1e-3.
  double epsilon = 1e-8;

  // Rule of one step for an element, its corrections for the zeros of the beginning worked out.
  struct Rule {
    double rate,  // learning_rate / (1 - beta1^t)
        root,     // sqrt(1 - beta2^t)
        first,    // 1 - beta1
        second,   // 1 - beta2
        epsilon;  // as the setting

    // Moves m and v by g, then p by m over the root of v.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& m, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      m += static_cast<T>(first) * (g - m);
      v += static_cast<T>(second) * (g * g - v);
      p -= static_cast<T>(rate) * m / (parallax::sqrt(v) / static_cast<T>(root) + static_cast<T>(epsilon));
    }

    // Returns the pace. A zero gradient makes updates of rate · root · f, with f = |m| / (sqrt(v) + epsilon · root), at least
    // as long as root does not fall. m falls by beta1 and the root of v by the root of beta2.
    Pace pace() const noexcept {
      namespace resting = detail::resting;
      bool const falls = resting::is_share(first) && resting::is_share(second) && second <= 0.25 && root >= resting::least_size;
      if (!falls || !resting::is_least(epsilon, resting::least_size) || !resting::is_least(rate, 0)) return {};
      if (!(rate <= first * epsilon * resting::most_gain)) return {};
      return {rate * root, resting::left_at_most(first) / detail::square_root(resting::left_at_least(second))};
    }
    // Returns true if the other rule has equal settings, except the rate.
    bool alike(Rule const& other) const noexcept {
      return first == other.first && second == other.second && epsilon == other.epsilon;
    }
    // Returns true if p does not show the update without a gradient.
    template <class T>
    PARALLAX_HOST_DEVICE bool rests(T p, T m, T v) const noexcept {
      m = faded(0, m), v = faded(1, v);
      return detail::resting::is_mean(v) &&
             detail::resting::is_unseen(p, static_cast<T>(rate), m,
                                        parallax::sqrt(v) / static_cast<T>(root) + static_cast<T>(epsilon));
    }
    // Returns m (slot 0) or v after a step without a gradient.
    template <class T>
    PARALLAX_HOST_DEVICE T faded(std::size_t slot, T x) const noexcept {
      PARALLAX_NO_CONTRACT
      return x + static_cast<T>(slot == 0 ? first : second) * (T{0} - x);
    }
  };
  // Returns the rule of a step of the variable, 1 for its first.
  Rule at(std::int64_t step) const {
    auto const t = static_cast<double>(step);
    return {learning_rate / (1 - detail::pow(beta1, t)), detail::square_root(1 - detail::pow(beta2, t)), 1 - beta1, 1 - beta2,
            epsilon};
  }
};

// Exact: a sparse variable equals the dense one bit for bit; untouched rows move, too.
using Adam = BasicAdam<Untouched::moves>;
// Lazy: rows that a step does not touch are left alone, their moments included. On dense variables equal to Adam.
using LazyAdam = BasicAdam<Untouched::lazy>;

// Adam with decoupled weight decay, p -= learning_rate · weight_decay · p before Adam's update: the decay is not divided by the
// root of v. Loshchilov and Hutter, ICLR 2019, algorithm 2. Slots as Adam's.
template <Untouched Semantics>
struct BasicAdamW {
  // Axis of the option.
  using axis = optimizer_axis;
  // Two numbers an element: m and v.
  using element_slots = slot_types<scalar, scalar>;
  // Adam's m and v, without the decay.
  static constexpr std::string_view slot_names[] = {"m", "v"};
  // Name of the alias, in messages and archives.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdamW" : "AdamW";
  // Choice of the alias: exact or lazy.
  static constexpr Untouched untouched = Semantics;
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"};

  // As Adam's: 1e-4 to 1e-2.
  double learning_rate = 0.001;
  // Share of the old m that a step keeps: 0.8 to 0.95.
  double beta1 = 0.9, beta2 = 0.999;  // share of the old v: 0.95 to 0.9999
  // Keeps the root from vanishing: 1e-8 to 1e-6.
  double epsilon = 1e-8;
  // Share of p that a step takes away, times learning_rate: 0 to 0.1.
  double weight_decay = 0.01;

  // Adam's rule of the same step, with the decay before it. Slots fade and rest as Adam's.
  struct Rule : BasicAdam<Semantics>::Rule {
    // learning_rate · weight_decay.
    double decay;

    // Lets p decay, then moves it as Adam does.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& m, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= static_cast<decltype(g)>(decay) * p;
      BasicAdam<Semantics>::Rule::operator()(p, g, m, v);
    }

    // Returns Adam's pace if nothing decays; else p falls in every step.
    Pace pace() const noexcept { return decay == 0 ? BasicAdam<Semantics>::Rule::pace() : Pace{}; }
  };
  // Returns the rule of a step of the variable, 1 for its first.
  Rule at(std::int64_t step) const {
    return {BasicAdam<Semantics>{learning_rate, beta1, beta2, epsilon}.at(step), learning_rate * weight_decay};
  }
};

// Exact: rows that a step does not touch decay and move, too.
using AdamW = BasicAdamW<Untouched::moves>;
// Lazy: rows that a step does not touch neither decay nor move.
using LazyAdamW = BasicAdamW<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
