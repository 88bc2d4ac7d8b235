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
// Axis of float, which names none itself.
template <> struct axis_of<float> {
  // Axis of scalars.
  using type = scalar_axis;
};
// Axis of double, which names none itself.
template <> struct axis_of<double> {
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
inline constexpr bool all_are_options =
    detail::options_on<policy_axis, Options...> + detail::options_on<optimizer_axis, Options...> +
        detail::options_on<partitioner_axis, Options...> + detail::options_on<space_axis, Options...> +
        detail::options_on<scalar_axis, Options...> + detail::options_on<index_axis, Options...> ==
    int{sizeof...(Options)};

// True when no two options lie on one axis: the choice by `option_or` does not depend on their order then.
template <class... Options>
inline constexpr bool one_option_per_axis =
    detail::options_on<policy_axis, Options...> <= 1 && detail::options_on<optimizer_axis, Options...> <= 1 &&
    detail::options_on<partitioner_axis, Options...> <= 1 && detail::options_on<space_axis, Options...> <= 1 &&
    detail::options_on<scalar_axis, Options...> <= 1 && detail::options_on<index_axis, Options...> <= 1;

}  // namespace parallax
