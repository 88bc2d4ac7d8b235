// The axes along which a variable's type is chosen, and how a list of options in any order is normalised to one type each.
#pragma once

#include <concepts>
#include <type_traits>

namespace parallax {

// Every option names its axis as a member type `axis`.
struct policy_axis {};
struct optimizer_axis {};
struct partitioner_axis {};
struct space_axis {};
struct scalar_axis {};
struct index_axis {};

template <class Option>
struct axis_of {
  using type = void;
};
template <class Option>
  requires requires { typename Option::axis; }
struct axis_of<Option> {
  using type = typename Option::axis;
};
template <> struct axis_of<float> { using type = scalar_axis; };
template <> struct axis_of<double> { using type = scalar_axis; };

// The index type of a sparse variable: `Index<std::int32_t>` or `Index<std::int64_t>`.
template <class Int>
struct Index {
  using axis = index_axis;
  using type = Int;
};

namespace detail {

template <class Axis, class... Options>
inline constexpr int options_on = (0 + ... + (std::same_as<typename axis_of<Options>::type, Axis> ? 1 : 0));

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

// True when every option lies on a known axis; the assertions that use these name the mistake.
template <class... Options>
inline constexpr bool all_are_options =
    detail::options_on<policy_axis, Options...> + detail::options_on<optimizer_axis, Options...> +
        detail::options_on<partitioner_axis, Options...> + detail::options_on<space_axis, Options...> +
        detail::options_on<scalar_axis, Options...> + detail::options_on<index_axis, Options...> ==
    int{sizeof...(Options)};

template <class... Options>
inline constexpr bool one_option_per_axis =
    detail::options_on<policy_axis, Options...> <= 1 && detail::options_on<optimizer_axis, Options...> <= 1 &&
    detail::options_on<partitioner_axis, Options...> <= 1 && detail::options_on<space_axis, Options...> <= 1 &&
    detail::options_on<scalar_axis, Options...> <= 1 && detail::options_on<index_axis, Options...> <= 1;

}  // namespace parallax
