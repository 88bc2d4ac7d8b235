// RMSProp: Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5 (2012); centred: Graves, arXiv 1308.0850.
#pragma once

#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// v += (1 - decay)(g² - v), p -= learning_rate · g / (sqrt(v) + epsilon).
template <Untouched Semantics>
struct BasicRmsProp {
  using axis = optimizer_axis;
  using element_slots = slots<scalar>;
  static constexpr std::string_view slot_names[] = {"v"};
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyRmsProp" : "RmsProp";
  static constexpr Untouched untouched = Semantics;
  static constexpr std::string_view field_names[] = {"learning_rate", "decay", "epsilon"};

  double learning_rate = 0.01;
  double decay = 0.99;
  double epsilon = 1e-8;

  struct Rule {
    double rate, share, epsilon;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      v += static_cast<T>(share) * (g * g - v);
      p -= static_cast<T>(rate) * g / (parallax::sqrt(v) + static_cast<T>(epsilon));
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate, 1 - decay, epsilon}; }
};

// Exact: the mean square of a row that a step does not touch decays all the same.
using RmsProp = BasicRmsProp<Untouched::moves>;
// Lazy: it decays only in the steps that touch the row.
using LazyRmsProp = BasicRmsProp<Untouched::lazy>;

// v += (1 - decay)(g² - v), m += (1 - decay)(g - m), p -= learning_rate · g / (sqrt(v - m²) + epsilon): divided by what the
// gradients deviate from their mean. Where rounding makes v - m² negative it is 0.
template <Untouched Semantics>
struct BasicCenteredRmsProp {
  using axis = optimizer_axis;
  using element_slots = slots<scalar, scalar>;
  static constexpr std::string_view slot_names[] = {"v", "m"};
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyCenteredRmsProp" : "CenteredRmsProp";
  static constexpr Untouched untouched = Semantics;

  double learning_rate = 0.01;
  double decay = 0.99;
  double epsilon = 1e-8;

  struct Rule {
    double rate, share, epsilon;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& v, auto& m) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      v += static_cast<T>(share) * (g * g - v);
      m += static_cast<T>(share) * (g - m);
      T const variance = v - m * m;
      T const positive = variance < T{0} ? T{0} : variance;
      p -= static_cast<T>(rate) * g / (parallax::sqrt(positive) + static_cast<T>(epsilon));
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate, 1 - decay, epsilon}; }
};

// Exact, and lazy, as above.
using CenteredRmsProp = BasicCenteredRmsProp<Untouched::moves>;
using LazyCenteredRmsProp = BasicCenteredRmsProp<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
