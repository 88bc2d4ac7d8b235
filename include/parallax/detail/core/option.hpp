// Axes by which a variable's type is chosen, and the normal form of a list of options in any order: one type for each axis.
// Every option includes it to name its axis; `Variable` picks by it.
#pragma once

#include <concepts>
#include <type_traits>

namespace parallax::inline v0_2 {

// Axis of update policies: how gradients travel. Every option names its axis as a member type `axis`.
struct policy_axis {};
// Axis of optimizers: how gradients move parameters.
struct optimizer_axis {};
// Axis of partitioners: the owners of rows.
struct partitioner_axis {};
// Axis of memory spaces: the place of parameters.
struct space_axis {};
// Axis of float and double, the types of an element.
struct scalar_axis {};
// Axis of `Index`, the type of a row's number.
struct index_axis {};

// Axis of an option; void for a type that names none.
template <class Option>
struct axis_of {
  // On no axis: Variable refuses such a type.
  using type = void;
};
// Axis of a class that names it.
template <class Option>
  requires requires { typename Option::axis; }
struct axis_of<Option> {
  // Axis named by the option.
  using type = typename Option::axis;
};
// Axis of float and double, which name none themselves.
template <class Option>
  requires(std::same_as<Option, float> || std::same_as<Option, double>)
struct axis_of<Option> {
  // Axis of scalars.
  using type = scalar_axis;
};

// Index type of a sparse variable: `Index<std::int32_t>` or `Index<std::int64_t>`.
template <class Int>
struct Index {
  // Axis that makes it an option.
  using axis = index_axis;
  // Integer type.
  using type = Int;
};

namespace detail {

// True for an axis of the list above.
template <class Axis>
inline constexpr bool is_axis =
    std::same_as<Axis, policy_axis> || std::same_as<Axis, optimizer_axis> || std::same_as<Axis, partitioner_axis> ||
    std::same_as<Axis, space_axis> || std::same_as<Axis, scalar_axis> || std::same_as<Axis, index_axis>;

// Number of `Options` on `Axis`.
template <class Axis, class... Options>
inline constexpr int options_on = (0 + ... + (std::same_as<typename axis_of<Options>::type, Axis> ? 1 : 0));

// Behind `option_or`: the first option on the axis, found in a walk through the list, or the default at its end.
template <class Axis, class Default, class... Options>
struct select {
  using type = Default;
};
template <class Axis, class Default, class First, class... Rest>
struct select<Axis, Default, First, Rest...>
    : std::conditional_t<std::same_as<typename axis_of<First>::type, Axis>, std::type_identity<First>,
                         select<Axis, Default, Rest...>> {};

}  // namespace detail

// Option among `Options` on `Axis`, or `Default`.
template <class Axis, class Default, class... Options>
using option_or = typename detail::select<Axis, Default, Options...>::type;

// True when every option lies on a known axis; the assertions of Variable on it name the mistake.
template <class... Options>
inline constexpr bool all_are_options = (detail::is_axis<typename axis_of<Options>::type> && ...);

// True when no two options lie on one axis: the choice by `option_or` does not depend on their order then.
template <class... Options>
inline constexpr bool one_option_per_axis =
    ((!all_are_options<Options> || detail::options_on<typename axis_of<Options>::type, Options...> == 1) && ...);

}  // namespace parallax
