// Weight decay by the gradient of a penalty on the squared norm (L2), put before any optimizer.
#pragma once

#include <tuple>
#include <utility>

#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// The rule of `optimizer` with g + rate · p for a gradient. For the decoupled decay of AdamW see optimizer/adam.hpp.
//   WeightDecay<Sgd>{.optimizer = {.learning_rate = 0.1}, .rate = 1e-4}
// Exact semantics: every row decays in every step, whether it is touched or not. Lazy: rows decay in the steps that touch them.
namespace detail {
template <class O>
struct check_adapted {  // in a class of its own, as clang needs it
  static_assert(Optimizer<O>, "parallax: WeightDecay is put before an optimizer");
};
}  // namespace detail

template <class O, Untouched Semantics = untouched<O> == Untouched::lazy ? Untouched::lazy : Untouched::moves>
struct WeightDecay {
  static_assert(sizeof(detail::check_adapted<O>) > 0);
  using axis = optimizer_axis;
  using element_slots = slots<>;
  auto at(std::int64_t) const {
    return [](auto&, auto) noexcept {};
  }
};

template <Optimizer O, Untouched Semantics>
struct WeightDecay<O, Semantics> {
  using axis = optimizer_axis;
  using adapted = O;
  using element_slots = typename O::element_slots;
  using row_slots = parallax::row_slots<O>;
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyWeightDecay" : "WeightDecay";
  static constexpr Untouched untouched = Semantics;
  static constexpr Unit unit = parallax::unit<O>;
  static constexpr std::string_view field_names[] = {"optimizer", "rate"};

  O optimizer = {};
  double rate = 0.0;

  auto initial() const
    requires requires(O const& o) { o.initial(); }
  {
    return optimizer.initial();
  }
  auto row_initial() const
    requires requires(O const& o) { o.row_initial(); }
  {
    return optimizer.row_initial();
  }

  template <class Inner>
  struct Rule {
    Inner inner;
    double rate;

    template <class T>
    PARALLAX_HOST_DEVICE T decayed(T p, T g) const noexcept {
      PARALLAX_NO_CONTRACT
      return g + static_cast<T>(rate) * p;
    }
    template <class T, class... S>
      requires std::is_nothrow_invocable_v<Inner const&, T&, T, S&...>
    PARALLAX_HOST_DEVICE void operator()(T& p, T g, S&... held) const noexcept {
      inner(p, decayed(p, g), held...);
    }
    template <class T, class... S>
      requires requires(Inner const& rule, T& p, S&... held) { rule.measure(p, p, held...); }
    PARALLAX_HOST_DEVICE auto measure(T& p, T g, S&... held) const noexcept {
      return inner.measure(p, decayed(p, g), held...);
    }
    template <class M, class... R>
      requires requires(Inner const& rule, M const& sums, R&... held) { rule.finish(sums, std::int64_t{}, held...); }
    PARALLAX_HOST_DEVICE auto finish(M const& sums, std::int64_t count, R&... held) const noexcept {
      using Finished = decltype(inner.finish(sums, count, held...));
      return Rule<Finished>{inner.finish(sums, count, held...), rate};
    }
  };
  auto at(std::int64_t step) const { return Rule<decltype(optimizer.at(step))>{optimizer.at(step), rate}; }
};

template <class O>
using LazyWeightDecay = WeightDecay<O, Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
