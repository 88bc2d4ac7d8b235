// FTRL-proximal: McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013, algorithm 1. Included by
// parallax.hpp; a variable calls its rule once for every element of an update.
#pragma once

#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// FTRL-proximal, for sparse linear models whose weights should be exactly 0 where they help little. s = (sqrt(n + g²) -
// sqrt(n)) / learning_rate, z += g - s · p, n += g², and p is what minimises the sum so far: 0 where |z| <= l1, else (sign(z) ·
// l1 - z) / ((beta + sqrt(n)) / learning_rate + l2). The slots z and n begin as 0. An element whose gradient is 0 rests, so
// that a first value other than 0 stays until a gradient comes.
struct Ftrl {
  // The option's axis.
  using axis = optimizer_axis;
  // Two numbers an element: z and n.
  using element_slots = slots<scalar, scalar>;
  // z, the sum of g - s · p over all steps so far; n, that of g².
  static constexpr std::string_view slot_names[] = {"z", "n"};
  // The type's name, in messages and archives.
  static constexpr std::string_view name = "Ftrl";
  // The settings as messages name them.
  static constexpr std::string_view field_names[] = {"learning_rate", "beta", "l1", "l2"};

  // How far elements move, α: 0.01 to 1, and not 0.
  double learning_rate = 0.1;  // α
  // Damps the first updates, β: about 1.
  double beta = 1.0;
  // The weight of the penalty on |p|, λ₁, which makes parameters 0: from 0 on.
  double l1 = 0.0, l2 = 0.0;  // λ₂, of that on p² / 2: from 0 on

  // What one step does to an element.
  struct Rule {
    double rate,  // learning_rate
        beta,     // as the setting
        l1,       // as the setting
        l2;       // as the setting

    // Adds g to z and its square to n, and sets p to the minimum; with g = 0 it changes nothing.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& z, auto& n) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      T const more = n + g * g;
      T const root = parallax::sqrt(more);
      T const pulled = z + (g - (root - parallax::sqrt(n)) / static_cast<T>(rate) * p);
      T const bound = pulled < T{0} ? static_cast<T>(-l1) : static_cast<T>(l1);
      T const inside = (bound - pulled) / ((static_cast<T>(beta) + root) / static_cast<T>(rate) + static_cast<T>(l2));
      T const size = pulled < T{0} ? -pulled : pulled;
      bool const rests = g == T{0};
      p = rests ? p : size <= static_cast<T>(l1) ? T{0} : inside;
      z = rests ? z : pulled;
      n = more;
    }
  };
  // The rule of a step, which depends on the settings alone. Throws Error (invalid_argument) for a learning rate of 0 or less, by
  // which it would divide, and for another setting below 0.
  Rule at(std::int64_t /*step*/) const {
    if (!(learning_rate > 0)) detail::refuse_setting(name, field_names[0], learning_rate, "more than 0");
    double const others[] = {beta, l1, l2};
    for (int i = 0; i < 3; ++i)
      if (!(others[i] >= 0)) detail::refuse_setting(name, field_names[i + 1], others[i], "0 or more");
    return {learning_rate, beta, l1, l2};
  }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
