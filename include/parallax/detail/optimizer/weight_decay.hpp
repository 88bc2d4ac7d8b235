// Weight decay by the gradient of a penalty on the squared norm (L2), put before any optimizer. Included by parallax.hpp; a
// variable calls its rule as that of the optimizer.
#pragma once

#include <tuple>
#include <utility>

#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace detail {
// Behind WeightDecay: an assertion says that O is no optimizer, where it is none.
template <class O>
struct check_adapted {  // in a class of its own, as clang needs it
  static_assert(Optimizer<O>, "parallax: WeightDecay is put before an optimizer");
};
}  // namespace detail

// The rule of an optimizer O with g + rate · p for a gradient. For the decoupled decay of AdamW see detail/optimizer/adam.hpp.
//   WeightDecay<Sgd>{.optimizer = {.learning_rate = 0.1}, .rate = 1e-4}
// Exact semantics: every row decays in every step, whether it is touched or not. Lazy: rows decay in the steps that touch them.
// Of an O that is no optimizer this stands in once an assertion has said so; the specialisation below is the one that is used.
template <class O, Untouched Semantics = untouched<O> == Untouched::lazy ? Untouched::lazy : Untouched::moves>
struct WeightDecay {
  static_assert(sizeof(detail::check_adapted<O>) > 0);
  // The option's axis.
  using axis = optimizer_axis;
  // Nothing is kept.
  using element_slots = slot_types<>;
  // A rule that does nothing, so that the compiler has no more to say.
  auto at(std::int64_t) const {
    return [](auto&, auto) noexcept {};
  }
};

// An optimizer with weight decay before it: its slots, unit and first values are those of O.
template <Optimizer O, Untouched Semantics>
struct WeightDecay<O, Semantics> {
  // The option's axis.
  using axis = optimizer_axis;
  // The optimizer that the decay is put before, which names the slots.
  using adapted = O;
  // What O keeps for an element.
  using element_slots = typename O::element_slots;
  // What O keeps for a row.
  using row_slots = parallax::row_slots<O>;
  // The first part of the name in messages and archives; O's comes behind it: WeightDecay<Sgd>.
  static constexpr std::string_view name = Semantics == Untouched::lazy ? "LazyWeightDecay" : "WeightDecay";
  // As the argument says: `moves` unless O is lazy, for decay moves what has no gradient.
  static constexpr Untouched untouched = Semantics;
  // Over what O measures.
  static constexpr Unit unit = parallax::unit<O>;
  // The settings as messages name them.
  static constexpr std::string_view field_names[] = {"optimizer", "rate"};

  // O with its own settings.
  O optimizer = {};
  // What share of p is added to the gradient: 0 to 0.01.
  double rate = 0.0;

  // The first values of O's element slots, where O names them.
  auto initial() const
    requires requires(O const& o) { o.initial(); }
  {
    return optimizer.initial();
  }
  // The first values of O's row slots, where O names them.
  auto row_initial() const
    requires requires(O const& o) { o.row_initial(); }
  {
    return optimizer.row_initial();
  }

  // Returns the settings once one has changed, if O asks: those of O then.
  template <class Settings = O>
    requires requires(Settings const& o) { o.after_change(); }
  WeightDecay after_change() const { return {optimizer.after_change(), rate}; }

  // O's rule of a step, with the decay before it. `Inner`: the rule, or what its `finish` returns.
  template <class Inner>
  struct Rule {
    // What is called with the new gradient.
    Inner inner;
    // As the setting.
    double rate;

    // The gradient with the penalty's: g + rate · p.
    template <class T>
    PARALLAX_HOST_DEVICE T decayed(T p, T g) const noexcept {
      PARALLAX_NO_CONTRACT
      return g + static_cast<T>(rate) * p;
    }
    // Calls O's rule for an element with that gradient.
    template <class T, class... S>
      requires std::is_nothrow_invocable_v<Inner const&, T&, T, S&...>
    PARALLAX_HOST_DEVICE void operator()(T& p, T g, S&... held) const noexcept {
      inner(p, decayed(p, g), held...);
    }
    // Measures an element by O's rule with that gradient, where the rule measures.
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
    // O's finished rule, again with the decay before it: the elements' own gradients come without.
    template <class M, class... R>
      requires requires(Inner const& rule, M const& sums, R&... held) { rule.finish(sums, std::int64_t{}, held...); }
    PARALLAX_HOST_DEVICE auto finish(M const& sums, std::int64_t count, R&... held) const noexcept {
      using Finished = decltype(inner.finish(sums, count, held...));
      return Rule<Finished>{inner.finish(sums, count, held...), rate};
    }
  };
  // O's rule of a step of the variable, 1 for its first, with the decay before it.
  auto at(std::int64_t step) const { return Rule<decltype(optimizer.at(step))>{optimizer.at(step), rate}; }
};

// The same where rows decay in the steps that touch them alone, whatever O does by itself.
template <class O>
using LazyWeightDecay = WeightDecay<O, Untouched::lazy>;

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
