// LAMB: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020, algorithm 2.
#pragma once


#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Adam's moments m and v; r = m̂ / (sqrt(v̂) + epsilon) + weight_decay · p; p -= learning_rate · |p| / |r| · r, the norms taken
// over the whole of a dense variable and over each row of a table. Where a norm is 0 the ratio is 1.
template <Untouched Semantics>
struct BasicLamb {
  using axis = optimizer_axis;
  using element_slots = slots<scalar, scalar>;
  static constexpr std::string_view slot_names[] = {"m", "v"};
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyLamb" : "Lamb";
  static constexpr Untouched untouched = Semantics;
  static constexpr Unit unit = Unit::tensor;
  static constexpr std::string_view field_names[] = {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"};

  double learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;

  template <class Directions>
  struct Trusted {
    double rate;
    Directions directions;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto /*g*/, auto& m, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = std::remove_cvref_t<decltype(p)>;
      p -= static_cast<T>(rate) * directions.direction(p, m, v);
    }
  };
  struct Rule {
    double rate, first, second, first_correction, root, epsilon, decay;

    template <class T>
    PARALLAX_HOST_DEVICE T direction(T p, T m, T v) const noexcept {
      PARALLAX_NO_CONTRACT
      return m / static_cast<T>(first_correction) / (parallax::sqrt(v) / static_cast<T>(root) + static_cast<T>(epsilon)) +
             static_cast<T>(decay) * p;
    }
    template <class T>
    PARALLAX_HOST_DEVICE Measures<2> measure(T& p, T g, T& m, T& v) const noexcept {
      PARALLAX_NO_CONTRACT
      m += static_cast<T>(first) * (g - m);
      v += static_cast<T>(second) * (g * g - v);
      double const r = static_cast<double>(direction(p, m, v)), old = static_cast<double>(p);
      return {old * old, r * r};
    }
    PARALLAX_HOST_DEVICE Trusted<Rule> finish(Measures<2> const& squares, std::int64_t /*count*/) const noexcept {
      bool const both = squares[0] > 0 && squares[1] > 0;
      return {both ? rate * (parallax::sqrt(squares[0]) / parallax::sqrt(squares[1])) : rate, *this};
    }
  };

  Rule at(std::int64_t step) const {
    auto const t = static_cast<double>(step);
    return {learning_rate, 1 - beta1, 1 - beta2, 1 - detail::pow(beta1, t), detail::square_root(1 - detail::pow(beta2, t)),
            epsilon, weight_decay};
  }
};

// Exact: rows that a step does not touch move all the same.
using Lamb = BasicLamb<Untouched::moves>;
// Lazy: rows that a step does not touch are left alone. On dense variables the same as Lamb.
using LazyLamb = BasicLamb<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
