// The axes along which a variable's type is chosen, and how a list of options in any order is normalised to one type each.
// Whatever is an option includes it to name its axis; `Variable` picks by it.
#pragma once

#include <concepts>
#include <type_traits>

namespace parallax::inline v0_2 {

// Every option names its axis as a member type `axis`. This is the axis of update policies, which say how gradients travel.
struct policy_axis {};
// The axis of optimizers, which say how gradients move parameters.
struct optimizer_axis {};
// The axis of partitioners, which say who owns a row.
struct partitioner_axis {};
// The axis of memory spaces, which say where parameters are.
struct space_axis {};
// The axis of float and double, the types of an element.
struct scalar_axis {};
// The axis of `Index`, the type of a row's number.
struct index_axis {};

// The axis that an option lies on: of a type that names none, void.
template <class Option>
struct axis_of {
  // On no axis: Variable refuses such a type.
  using type = void;
};
// Of a class that names its axis, that one.
template <class Option>
  requires requires { typename Option::axis; }
struct axis_of<Option> {
  // The axis that the option names.
  using type = typename Option::axis;
};
// The axis of float, which names none itself.
template <> struct axis_of<float> {
  // That of scalars.
  using type = scalar_axis;
};
// The axis of double, which names none itself.
template <> struct axis_of<double> {
  // That of scalars.
  using type = scalar_axis;
};

// The index type of a sparse variable: `Index<std::int32_t>` or `Index<std::int64_t>`.
template <class Int>
struct Index {
  // What makes it an option.
  using axis = index_axis;
  // The integer type.
  using type = Int;
};

namespace detail {

// How many of `Options` lie on `Axis`.
template <class Axis, class... Options>
inline constexpr int options_on = (0 + ... + (std::same_as<typename axis_of<Options>::type, Axis> ? 1 : 0));

// Behind `option_or`: the first option on the axis, found by going through the list, or the default at its end.
template <class Axis, class Default, class... Options>
struct select {
  using type = Default;
};
template <class Axis, class Default, class First, class... Rest>
struct select<Axis, Default, First, Rest...>
    : std::conditional_t<std::same_as<typename axis_of<First>::type, Axis>, std::type_identity<First>,
                         select<Axis, Default, Rest...>> {};

}  // namespace detail

// The option among `Options` that lies on `Axis`, or `Default`.
template <class Axis, class Default, class... Options>
using option_or = typename detail::select<Axis, Default, Options...>::type;

// True when every option lies on a known axis; the assertions of Variable that use this name the mistake.
template <class... Options>
inline constexpr bool all_are_options =
    detail::options_on<policy_axis, Options...> + detail::options_on<optimizer_axis, Options...> +
        detail::options_on<partitioner_axis, Options...> + detail::options_on<space_axis, Options...> +
        detail::options_on<scalar_axis, Options...> + detail::options_on<index_axis, Options...> ==
    int{sizeof...(Options)};

// True when no two options lie on the same axis, in which case the choice by `option_or` does not depend on their order.
template <class... Options>
inline constexpr bool one_option_per_axis =
    detail::options_on<policy_axis, Options...> <= 1 && detail::options_on<optimizer_axis, Options...> <= 1 &&
    detail::options_on<partitioner_axis, Options...> <= 1 && detail::options_on<space_axis, Options...> <= 1 &&
    detail::options_on<scalar_axis, Options...> <= 1 && detail::options_on<index_axis, Options...> <= 1;

}  // namespace parallax
