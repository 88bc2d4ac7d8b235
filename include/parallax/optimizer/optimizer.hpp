// An optimizer: its state beside the parameters and its rule, which turns a gradient into an update. Every optimizer includes
// it, and variables ask it. The room `optimizer` has the rules by which gradients move parameters, a file each.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/math.hpp"
#include "parallax/detail/core/measures.hpp"
#include "parallax/detail/core/option.hpp"
#include "parallax/detail/core/type.hpp"

namespace parallax::inline v0_2 {

// Stands for the variable's own element type in a list of slots.
struct scalar {};
// An optimizer's state for every element (or row): one array for each type in the list.
template <class... T>
struct slot_types {
  // The number of arrays.
  static constexpr std::size_t count = sizeof...(T);
};

namespace detail {
// The type of a slot's entries in a variable over T.
template <class Slot, class T>
using slot_type = std::conditional_t<std::same_as<Slot, scalar>, T, Slot>;
}  // namespace detail

// An optimizer's treatment of elements whose gradient is zero.
//   rests  nothing (SGD, Adagrad): sparse and dense updates are the same thing
//   moves  it moves them (Adam's decay): rows untouched by a step are brought up to date, step by step, before they
//          are next read or updated, so that a sparse variable equals the dense one bit for bit
//   lazy   it would move them, but rows untouched by a step are left alone; said in the type's name (LazyAdam)
enum class Untouched : unsigned char { rests, moves, lazy };

// The range that an optimizer measures before it moves an element.
//   element  over nothing: the rule is called element by element
//   row      over each row: a table's, or those of the matrix as which a dense variable was bound (a vector is one row)
//   tensor   over the whole of a dense variable; a table's rows are measured one by one, for a step touches few of them
enum class Unit : unsigned char { element, row, tensor };

// An optimizer is a trivially copyable struct of numbers:
//   using axis = optimizer_axis;
//   using element_slots = slot_types<...>;             state per element, initially `initial()` or zero
//   auto at(std::int64_t step) const              hoists everything dependent on the step (1 for the variable's first update)
//                                                 and returns the rule
//   rule(auto& p, auto g, auto&... slots) noexcept    updates one element; called for every element of every touched row
// Optional: `static constexpr std::string_view name`, `static constexpr Untouched untouched` (default rests),
// `static constexpr std::string_view slot_names[]`, by which users and archives find the slots (default slot0, slot1, …),
// `static constexpr std::string_view field_names[]`, by which messages show the settings, `auto initial() const`, a tuple of
// the slots' first values, and `static constexpr bool subtracts = true` of one with the rule p -= g, whatever its settings: a
// gradient may then be a trainer's own change (px::difference).
// One that measures says so by `static constexpr Unit unit`; it may keep `using row_slots = slot_types<...>`, initially
// `row_initial()` or zero, one per row, and `row_slot_names` (default row_slot0, …). Its rule is
//   rule.measure(auto& p, auto g, auto&... slots) noexcept -> Measures<K>    of one element; K sums are formed of them, in the
//                                                 order of RowOps::measure_elements. May move the slots
//   rule.finish(Measures<K> const& sums, std::int64_t count, auto&... row_slots) noexcept    the rule of the elements
// One whose rule sets p by its slots, instead of moving it, has in its rule, if called element by element,
//   rule.adopt(auto p, auto&... slots) noexcept    changes the slots for a p from outside such that the rule, with a gradient
//                                                 of 0, would return p. Called wherever values enter a variable
// One with a setting's earlier values in its slots has
//   O after_change() const                        returns its settings for `at`, from the first step on for which one has
//                                                 changed
// A rule by element of an optimizer that `moves` may let rows rest: see detail/optimizer/resting.hpp. A rule with many
// intermediate results says so by `static constexpr bool large = true`, and is given more registers on devices.
template <class O>
concept Optimizer = std::is_trivially_copyable_v<O> && requires(O const& optimizer, std::int64_t step) {
  requires std::same_as<typename O::axis, optimizer_axis>;
  typename O::element_slots;
  optimizer.at(step);
};

// O's treatment of elements whose gradient is zero. States of variables settle rows by it.
template <class O>
inline constexpr Untouched untouched = [] {
  if constexpr (requires { O::untouched; }) return O::untouched;
  else return Untouched::rests;
}();
// The range that O measures before it moves an element.
template <class O>
inline constexpr Unit unit = [] {
  if constexpr (requires { O::unit; }) return O::unit;
  else return Unit::element;
}();
// True if the rule of O is p -= g, so a gradient may be a difference made by a trainer.
template <class O>
inline constexpr bool subtracts = [] {
  if constexpr (requires { O::subtracts; }) return O::subtracts;
  else return false;
}();

namespace detail {

// The state that O keeps for each row; nothing unless O names any.
template <class O>
struct row_slots_of {
  using type = slot_types<>;
};
template <class O>
  requires requires { typename O::row_slots; }
struct row_slots_of<O> {
  using type = typename O::row_slots;
};

// Parts of an optimizer that may be missing, in the order of the search.
enum class OptimizerLack {
  nothing, copies, element_slots, at, rule, nothrow_rule, measure, nothrow_measure, finish, nothrow_finish
};

// Returns the fault of a rule: of the result of at(step), or of the rule's finish(sums, count).
template <class Rule, class T, class... S>
consteval OptimizerLack rule_lacks(std::type_identity<slot_types<S...>>) {
  if constexpr (!std::is_invocable_v<Rule const&, T&, T, slot_type<S, T>&...>) return OptimizerLack::rule;
  else if constexpr (!std::is_nothrow_invocable_v<Rule const&, T&, T, slot_type<S, T>&...>) return OptimizerLack::nothrow_rule;
  else return OptimizerLack::nothing;
}
// Returns the fault of a rule that measures: of `measure`, `finish`, and then of the result of `finish`.
template <class Rule, class T, class... S, class... R>
consteval OptimizerLack measured_rule_lacks(std::type_identity<slot_types<S...>> element,
                                            std::type_identity<slot_types<R...>>) {
  if constexpr (!requires(Rule const& rule, T& p, slot_type<S, T>&... s) { rule.measure(p, T{}, s...); }) {
    return OptimizerLack::measure;
  } else {
    using Sums = decltype(std::declval<Rule const&>().measure(std::declval<T&>(), T{}, std::declval<slot_type<S, T>&>()...));
    if constexpr (!noexcept(std::declval<Rule const&>().measure(std::declval<T&>(), T{}, std::declval<slot_type<S, T>&>()...)))
      return OptimizerLack::nothrow_measure;
    else if constexpr (!requires(Rule const& rule, Sums sums, slot_type<R, T>&... r) {
                         rule.finish(sums, std::int64_t{1}, r...);
                       })
      return OptimizerLack::finish;
    else if constexpr (!requires(Rule const& rule, Sums sums, slot_type<R, T>&... r) {
                         requires noexcept(rule.finish(sums, std::int64_t{1}, r...));
                       })
      return OptimizerLack::nothrow_finish;
    else
      return rule_lacks<decltype(std::declval<Rule const&>().finish(std::declval<Sums>(), std::int64_t{1},
                                                                    std::declval<slot_type<R, T>&>()...)),
                        T>(element);
  }
}

// Returns the first lack of O, or `nothing`.
template <class O, class T>
consteval OptimizerLack optimizer_lacks() {
  if constexpr (!std::is_trivially_copyable_v<O>) {
    return OptimizerLack::copies;
  } else if constexpr (!requires { typename O::element_slots; }) {
    return OptimizerLack::element_slots;
  } else if constexpr (!requires(O const& optimizer, std::int64_t step) { optimizer.at(step); }) {
    return OptimizerLack::at;
  } else {
    using Rule = decltype(std::declval<O const&>().at(std::int64_t{1}));
    using Elements = std::type_identity<typename O::element_slots>;
    if constexpr (unit<O> == Unit::element) return rule_lacks<Rule, T>(Elements{});
    else return measured_rule_lacks<Rule, T>(Elements{}, std::type_identity<typename row_slots_of<O>::type>{});
  }
}

// Returns true, behind `adopts`, if the rule of O can be told of a parameter given from outside.
template <class O, class T, class... S>
constexpr bool has_adopt(std::type_identity<slot_types<S...>>) {
  using Rule = decltype(std::declval<O const&>().at(std::int64_t{1}));
  if constexpr (requires(Rule const& rule, T& p, slot_type<S, T>&... s) { rule.adopt(p, s...); })
    return unit<O> == Unit::element;
  else return false;
}

// Returns, behind `measure_count`, the K of the Measures<K> returned by the rule's `measure`; 0 if the unit is the element.
template <class O, class T, class... S>
constexpr std::size_t measure_count_of(std::type_identity<slot_types<S...>>) {
  using Rule = decltype(std::declval<O const&>().at(std::int64_t{1}));
  if constexpr (unit<O> == Unit::element) return 0;
  else return decltype(std::declval<Rule const&>().measure(std::declval<T&>(), T{}, std::declval<slot_type<S, T>&>()...))::count;
}

}  // namespace detail

// The number of sums that O forms over its measures, of elements of T.
template <class O, class T>
inline constexpr std::size_t measure_count = detail::measure_count_of<O, T>(std::type_identity<typename O::element_slots>{});
// A flag: the slots of O, beside elements of T, follow values given from outside. States of variables ask it.
template <class O, class T>
inline constexpr bool adopts = detail::has_adopt<O, T>(std::type_identity<typename O::element_slots>{});
// A rule that leaves parameters alone, and makes their slots follow them. Operations on rows take it in place of the
// optimizer's, wherever values have entered a variable.
template <class Rule>
struct AdoptingRule {
  // The optimizer's rule, of the next step.
  Rule rule;

  // Has the rule adopt p. There is no gradient.
  template <class T, class... S>
  PARALLAX_HOST_DEVICE void operator()(T& p, T /*gradient*/, S&... slot) const noexcept {
    static_assert(noexcept(rule.adopt(p, slot...)), "parallax: an optimizer's adopt(p, slots...) is not noexcept");
    T const given = p;
    rule.adopt(given, slot...);
  }
};

// The slots that O keeps for each row; `slot_types<>` without any.
template <class O>
using row_slots = typename detail::row_slots_of<O>::type;

// Returns an optimizer's name in messages: its `name`, or the compiler's name of its type. An adapter of another says both.
template <class O>
std::string optimizer_name() {
  std::string text;
  if constexpr (requires { O::name; }) text = O::name;
  else text = name_of_type<O>();
  if constexpr (requires { typename O::adapted; }) ((text += '<') += optimizer_name<typename O::adapted>()) += '>';
  return text;
}

// Returns the name of O's element slot number `slot`, from 0 on: for users, archives and messages.
template <class O>
std::string slot_name(std::size_t slot) {
  if constexpr (requires { O::slot_names; }) {
    static_assert(std::size(O::slot_names) == O::element_slots::count,
                  "parallax: an optimizer names each of its slots: slot_names has one entry per entry of element_slots");
    return std::string{O::slot_names[slot]};
  } else if constexpr (requires { typename O::adapted; }) {
    return slot_name<typename O::adapted>(slot);
  } else {
    return "slot" + std::to_string(slot);
  }
}
// Returns the name of O's row slot number `slot`, from 0 on.
template <class O>
std::string row_slot_name(std::size_t slot) {
  if constexpr (requires { O::row_slot_names; }) {
    static_assert(std::size(O::row_slot_names) == row_slots<O>::count,
                  "parallax: an optimizer names each of its row slots: row_slot_names has one entry per entry of row_slots");
    return std::string{O::row_slot_names[slot]};
  } else if constexpr (requires { typename O::adapted; }) {
    return row_slot_name<typename O::adapted>(slot);
  } else {
    return "row_slot" + std::to_string(slot);
  }
}

namespace detail {

// Throws Error (invalid_argument) for a setting without sense to a rule: called by an optimizer's `at`, it refuses the step on
// all ranks. `bound`: the condition on the setting.
template <class Number = double>
[[noreturn]] void refuse_setting(std::string_view optimizer, std::string_view setting, Number value, std::string_view bound) {
  throw Error{Errc::invalid_argument, -1, "step", "",
              joined({optimizer, "'s ", setting, " is ", value, ", and has to be ", bound})};
}

// Throws Error (invalid_argument) for setting number `number`, from 0 on, with a `value` that is not finite.
template <class O>
PARALLAX_COLD [[noreturn]] void refuse_field(O const&, std::size_t number, double value) {
  if constexpr (requires { O::field_names; })
    refuse_setting(optimizer_name<O>(), O::field_names[number], value, "a finite number");
  else refuse_setting(optimizer_name<O>(), joined({"setting ", number + 1}), value, "a finite number");
}
// Checks settings before an update: throws Error (invalid_argument) for one of O, or of an optimizer among them, if it is
// infinite or not a number.
template <class O>
void check_settings(O const& optimizer) {
  std::size_t number = 0;
  auto const check = [&]<class Field>(Field const& field) {
    if constexpr (std::is_floating_point_v<Field>) {
      double const value = static_cast<double>(field);
      if (!is_finite(value)) refuse_field(optimizer, number, value);
    } else if constexpr (std::is_class_v<Field>) {
      check_settings(field);
    }
    ++number;
  };
  if constexpr (requires { optimizer.fields(check); }) optimizer.fields(check);
  else if constexpr (std::is_aggregate_v<O>) for_each_field(optimizer, check);
}

}  // namespace detail

// The demands of `Variable` on O for elements of T: the rule takes (p, g, slots...) of them and cannot throw.
template <class O, class T>
concept OptimizerFor = Optimizer<O> && (detail::optimizer_lacks<O, T>() == detail::OptimizerLack::nothing);

}  // namespace parallax
