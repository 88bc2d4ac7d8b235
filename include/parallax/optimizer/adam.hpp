// Adam and AdamW, with exact and with lazy sparse semantics: Kingma and Ba, ICLR 2015, algorithm 1.
#pragma once

#include <tuple>

#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// m += (1 - beta1)(g - m), v += (1 - beta2)(g² - v), p -= rate · m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon) with
// rate = learning_rate / (1 - beta1^t). `Semantics` says what happens to rows that a step does not touch.
template <Untouched Semantics>
struct BasicAdam {
  using axis = optimizer_axis;
  using element_slots = slots<scalar, scalar>;
  static constexpr std::string_view slot_names[] = {"m", "v"};
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdam" : "Adam";
  static constexpr Untouched untouched = Semantics;
  static constexpr std::string_view field_names[] = {"learning_rate", "beta1", "beta2", "epsilon"};

  double learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;

  struct Rule {
    double rate, root, first, second, epsilon;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& m, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      m += static_cast<T>(first) * (g - m);
      v += static_cast<T>(second) * (g * g - v);
      p -= static_cast<T>(rate) * m / (parallax::sqrt(v) / static_cast<T>(root) + static_cast<T>(epsilon));
    }
  };
  Rule at(std::int64_t step) const {
    auto const t = static_cast<double>(step);
    return {learning_rate / (1 - detail::pow(beta1, t)), detail::square_root(1 - detail::pow(beta2, t)), 1 - beta1, 1 - beta2,
            epsilon};
  }
};

// Exact: a sparse variable equals the dense one bit for bit; rows that were not touched move all the same.
using Adam = BasicAdam<Untouched::moves>;
// Lazy: rows that a step does not touch are left alone, their moments included. On dense variables the same as Adam.
using LazyAdam = BasicAdam<Untouched::lazy>;

// Adam with decoupled weight decay, p -= learning_rate · weight_decay · p before Adam's update: Loshchilov and Hutter, ICLR
// 2019, algorithm 2.
template <Untouched Semantics>
struct BasicAdamW {
  using axis = optimizer_axis;
  using element_slots = slots<scalar, scalar>;
  static constexpr std::string_view slot_names[] = {"m", "v"};
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyAdamW" : "AdamW";
  static constexpr Untouched untouched = Semantics;
  static constexpr std::string_view field_names[] = {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"};

  double learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;

  struct Rule {
    typename BasicAdam<Semantics>::Rule adam;
    double decay;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto& m, auto& v) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= static_cast<decltype(g)>(decay) * p;
      adam(p, g, m, v);
    }
  };
  Rule at(std::int64_t step) const {
    return {BasicAdam<Semantics>{learning_rate, beta1, beta2, epsilon}.at(step), learning_rate * weight_decay};
  }
};

using AdamW = BasicAdamW<Untouched::moves>;
using LazyAdamW = BasicAdamW<Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
