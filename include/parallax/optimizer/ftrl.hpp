// FTRL-proximal: McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013, algorithm 1.
#pragma once

#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// s = (sqrt(n + g²) - sqrt(n)) / learning_rate, z += g - s · p, n += g², and p is what minimises the sum so far: 0 where
// |z| <= l1, else (sign(z) · l1 - z) / ((beta + sqrt(n)) / learning_rate + l2). An element whose gradient is 0 rests, so that
// a first value other than 0 stays until a gradient comes.
struct Ftrl {
  using axis = optimizer_axis;
  using element_slots = slots<scalar, scalar>;
  static constexpr std::string_view slot_names[] = {"z", "n"};
  static constexpr std::string_view name = "Ftrl";
  static constexpr std::string_view field_names[] = {"learning_rate", "beta", "l1", "l2"};

  double learning_rate = 0.1;  // α
  double beta = 1.0;
  double l1 = 0.0, l2 = 0.0;  // λ₁, λ₂

  struct Rule {
    double rate, beta, l1, l2;

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
  Rule at(std::int64_t /*step*/) const { return {learning_rate, beta, l1, l2}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
