// Weight decay by the gradient of a penalty on the squared norm (L2), put before any optimizer. Included by parallax.hpp; a
// variable calls its rule as the optimizer's.
#pragma once

#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace detail {
// Behind WeightDecay: an assertion for an O that is no optimizer.
template <class O>
struct check_adapted {  // in a class of its own, as clang needs it
  static_assert(Optimizer<O>, "parallax: WeightDecay is put before an optimizer");
};
}  // namespace detail

// Rule of an optimizer O with g + rate · p for a gradient. For the decoupled decay of AdamW see detail/optimizer/adam.hpp.
//   WeightDecay<Sgd>{.optimizer = {.learning_rate = 0.1}, .rate = 1e-4}
// Exact semantics: every row decays in every step, touched or not. Lazy: rows decay in the steps that touch them. For an O that
// is no optimizer this stands in after an assertion; the specialisation below is in use otherwise.
template <class O, Untouched Semantics = untouched<O> == Untouched::lazy ? Untouched::lazy : Untouched::moves>
struct WeightDecay {
  static_assert(sizeof(detail::check_adapted<O>) > 0);
  // Axis of the option.
  using axis = optimizer_axis;
  // Nothing is kept.
  using element_slots = slot_types<>;
  // Returns a rule that does nothing, to spare the compiler's further messages.
  auto at(std::int64_t) const {
    return [](auto&, auto) noexcept {};
  }
};

// An optimizer with weight decay before it: with the slots, unit and first values of O.
template <Optimizer O, Untouched Semantics>
struct WeightDecay<O, Semantics> {
  // Axis of the option.
  using axis = optimizer_axis;
  // Optimizer behind the decay, which names the slots.
  using adapted = O;
  // Slots of O for an element.
  using element_slots = typename O::element_slots;
  // Slots of O for a row.
  using row_slots = parallax::row_slots<O>;
  // First part of the name in messages and archives; O's comes behind it: WeightDecay<Sgd>.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyWeightDecay" : "WeightDecay";
  // Choice of the argument: `moves` unless O is lazy, for decay moves elements without a gradient.
  static constexpr Untouched untouched = Semantics;
  // Unit of O's measures.
  static constexpr Unit unit = parallax::unit<O>;
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"optimizer", "rate"};

  // O with its own settings.
  O optimizer = {};
  // Share of p added to the gradient: 0 to 0.01.
  double rate = 0.0;

  // Returns the first values of O's element slots, if O names them.
  auto initial() const
    requires requires(O const& o) { o.initial(); }
  {
    return optimizer.initial();
  }
  // Returns the first values of O's row slots, if O names them.
  auto row_initial() const
    requires requires(O const& o) { o.row_initial(); }
  {
    return optimizer.row_initial();
  }

  // Returns the settings once one has changed, if O asks: O's by then.
  template <class Settings = O>
    requires requires(Settings const& o) { o.after_change(); }
  WeightDecay after_change() const { return {optimizer.after_change(), rate}; }

  // O's rule of a step, with the decay before it. `Inner`: the rule, or the result of its `finish`.
  template <class Inner>
  struct Rule {
    // Rule called with the new gradient.
    Inner inner;
    // Rate, as the setting.
    double rate;

    // Returns the gradient with the penalty's: g + rate · p.
    template <class T>
    PARALLAX_HOST_DEVICE T decayed(T p, T g) const noexcept {
      PARALLAX_NO_CONTRACT
      return g + static_cast<T>(rate) * p;
    }
    // Calls O's rule for an element with the new gradient.
    template <class T, class... S>
      requires std::is_nothrow_invocable_v<Inner const&, T&, T, S&...>
    PARALLAX_HOST_DEVICE void operator()(T& p, T g, S&... held) const noexcept {
      inner(p, decayed(p, g), held...);
    }
    // Measures an element by O's rule with the new gradient, if the rule measures.
    template <class T, class... S>
      requires requires(Inner const& rule, T& p, S&... held) { rule.measure(p, p, held...); }
    PARALLAX_HOST_DEVICE auto measure(T& p, T g, S&... held) const noexcept {
      return inner.measure(p, decayed(p, g), held...);
    }
    // Has O's rule adopt p, if it can.
    template <class T, class... S>
      requires requires(Inner const& rule, T p, S&... held) { rule.adopt(p, held...); }
    PARALLAX_HOST_DEVICE void adopt(T p, S&... held) const noexcept(noexcept(inner.adopt(p, held...))) {
      inner.adopt(p, held...);
    }
    // Returns O's finished rule, again with the decay before it: the elements' own gradients come without.
    template <class M, class... R>
      requires requires(Inner const& rule, M const& sums, R&... held) { rule.finish(sums, std::int64_t{}, held...); }
    PARALLAX_HOST_DEVICE auto finish(M const& sums, std::int64_t count, R&... held) const noexcept {
      using Finished = decltype(inner.finish(sums, count, held...));
      return Rule<Finished>{inner.finish(sums, count, held...), rate};
    }
  };
  // Returns O's rule of a step of the variable, 1 for its first, with the decay before it.
  auto at(std::int64_t step) const { return Rule<decltype(optimizer.at(step))>{optimizer.at(step), rate}; }
};

// Weight decay of rows in the steps that touch them alone, for any O.
template <class O>
using LazyWeightDecay = WeightDecay<O, Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
