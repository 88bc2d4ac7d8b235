// Lacks of a type as an optimizer for elements of T, in one sentence: included by Variable, which refuses such a type by it.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2::detail {

// Parts that may be missing, in the order of the search.
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
    if constexpr (unit_of<O>() == Unit::element) return rule_lacks<Rule, T>(Elements{});
    else return measured_rule_lacks<Rule, T>(Elements{}, std::type_identity<typename row_slots_of<O>::type>{});
  }
}

// Assertions, one of which fails if O is no optimizer of elements of T.
template <class O, class T>
struct check_optimizer {
  static constexpr OptimizerLack lack = optimizer_lacks<O, T>();
  static_assert(lack != OptimizerLack::copies,
                "parallax: an optimizer is a trivially copyable struct of numbers (see optimizer/optimizer.hpp), and this one "
                "cannot be copied as bytes");
  static_assert(lack != OptimizerLack::element_slots,
                "parallax: the optimizer's rule does not fit: the optimizer lacks element_slots "
                "(see optimizer/optimizer.hpp)");
  static_assert(lack != OptimizerLack::at,
                "parallax: the optimizer's rule does not fit: the optimizer lacks at(step) const "
                "(see optimizer/optimizer.hpp)");
  static_assert(lack != OptimizerLack::rule,
                "parallax: the optimizer's rule does not fit: it cannot be called as rule(auto& p, auto g, auto&... slots) "
                "const with one slot per entry of element_slots (see optimizer/optimizer.hpp)");
  static_assert(lack != OptimizerLack::nothrow_rule,
                "parallax: the optimizer's rule does not fit: rule(auto& p, auto g, auto&... slots) is not noexcept "
                "(see optimizer/optimizer.hpp)");
  static_assert(lack != OptimizerLack::measure,
                "parallax: the optimizer's rule does not fit: the optimizer has a unit, and its rule lacks "
                "measure(auto& p, auto g, auto&... slots) const with one slot per entry of element_slots");
  static_assert(lack != OptimizerLack::nothrow_measure,
                "parallax: the optimizer's rule does not fit: measure(auto& p, auto g, auto&... slots) is not noexcept");
  static_assert(lack != OptimizerLack::finish,
                "parallax: the optimizer's rule does not fit: the optimizer has a unit, and its rule lacks "
                "finish(sums, count, auto&... row_slots) const with one slot per entry of row_slots");
  static_assert(lack != OptimizerLack::nothrow_finish,
                "parallax: the optimizer's rule does not fit: finish(sums, count, auto&... row_slots) is not noexcept");
};

}  // namespace parallax::detail
