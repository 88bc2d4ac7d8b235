// What an optimizer is: the state it keeps beside the parameters and the rule that turns a gradient into an update.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "parallax/core/config.hpp"
#include "parallax/core/option.hpp"

namespace parallax {

// The state that an optimizer keeps for every element (or row), one array per type. `scalar` stands for the variable's type.
struct scalar {};
template <class... T>
struct slots {
  static constexpr std::size_t count = sizeof...(T);
};

namespace detail {
template <class Slot, class T>
using slot_type = std::conditional_t<std::same_as<Slot, scalar>, T, Slot>;
}

// What an optimizer does to elements whose gradient is zero.
//   rests  nothing (SGD, Adagrad): sparse and dense updates are the same thing
//   moves  it moves them (Adam's decay): rows that a step does not touch are brought up to date, step by step, before they
//          are next read or updated, so that a sparse variable equals the dense one bit for bit
//   lazy   it would move them, but rows that a step does not touch are left alone; said in the type's name (LazyAdam)
enum class Untouched : unsigned char { rests, moves, lazy };

// An optimizer is a trivially copyable struct of numbers:
//   using axis = optimizer_axis;
//   using element_slots = slots<...>;             state per element, initially `initial()` or zero
//   auto at(std::int64_t step) const              hoists what depends on the step (1 for the first update of the variable)
//                                                 and returns the rule
//   rule(auto& p, auto g, auto&... slots) noexcept    updates one element; called for every element of every touched row
// Optional: `static constexpr std::string_view name`, `static constexpr Untouched untouched` (default rests), and
// `auto initial() const`, a tuple of the slots' first values.
template <class O>
concept Optimizer = std::is_trivially_copyable_v<O> && requires(O const& optimizer, std::int64_t step) {
  requires std::same_as<typename O::axis, optimizer_axis>;
  typename O::element_slots;
  optimizer.at(step);
};

namespace detail {

template <class O>
constexpr Untouched untouched_of() {
  if constexpr (requires { O::untouched; }) return O::untouched;
  else return Untouched::rests;
}

template <class Rule, class T, class... S>
constexpr bool is_rule(std::type_identity<slots<S...>>) {
  return std::is_nothrow_invocable_v<Rule const&, T&, T, slot_type<S, T>&...>;
}

}  // namespace detail

template <class O>
inline constexpr Untouched untouched = detail::untouched_of<O>();

// What messages call an optimizer: its `name`, or what the compiler calls its type.
template <class O>
std::string optimizer_name() {
  if constexpr (requires { O::name; }) return std::string{O::name};
  else return typeid(O).name();
}

// The rule takes (p, g, slots...) of a variable over T and cannot throw.
template <class O, class T>
concept OptimizerFor =
    Optimizer<O> && detail::is_rule<decltype(std::declval<O const&>().at(std::int64_t{1})), T>(
                        std::type_identity<typename O::element_slots>{});

}  // namespace parallax
