// Adadelta: Zeiler, arXiv 1212.5701, algorithm 1.
#pragma once

#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// v += (1 - decay)(g² - v), d = sqrt(u + epsilon) / sqrt(v + epsilon) · g, u += (1 - decay)(d² - u), p -= learning_rate · d:
// what it divides by and what it multiplies by are means of the squares of gradients, v, and of updates, u.
template <Untouched Semantics>
struct BasicAdadelta {
  using axis = optimizer_axis;
  using element_slots = slots<scalar, scalar>;
  static constexpr std::string_view slot_names[] = {"v", "u"};
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdadelta" : "Adadelta";
  static constexpr Untouched untouched = Semantics;

  double learning_rate = 1.0;
  double decay = 0.9;  // ρ
  double epsilon = 1e-6;

  struct Rule {
    double rate, share, epsilon;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& v, auto& u) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      v += static_cast<T>(share) * (g * g - v);
      T const d = parallax::sqrt(u + static_cast<T>(epsilon)) / parallax::sqrt(v + static_cast<T>(epsilon)) * g;
      u += static_cast<T>(share) * (d * d - u);
      p -= static_cast<T>(rate) * d;
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate, 1 - decay, epsilon}; }
};

// Exact: the means of a row that a step does not touch decay all the same.
using Adadelta = BasicAdadelta<Untouched::moves>;
// Lazy: they decay only in the steps that touch the row.
using LazyAdadelta = BasicAdadelta<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
