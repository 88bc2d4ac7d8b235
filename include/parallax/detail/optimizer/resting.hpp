// Rows at rest. Updates of an optimizer with exact semantics may have become so small that parameters do not show them any
// more. Then a step that passes a row by moves its slots alone. Included by rules that say so; tables ask them.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {

// Reach of a step's update without a gradient, over all values of the slots. Rules that are `alike` have updates of at most
// reach · f, with a number f for each element, and f becomes at most fall · f from one such step to the next.
struct Pace {
  // Not negative; negative if rows do not rest in this step.
  double reach = -1;
  // Not negative.
  double fall = 1;
};

// A rule with an update without a gradient that falls below half the distance between p and its neighbours. A row is at rest if
// this holds in all its elements: it takes a step with its slots alone, without a root and without a division.
//   rule.pace()              its reach. If not negative, an element with all slots +0 stays unchanged, bit for
//                            bit, and so do the slots
//   rule.alike(other)        true if the paces of the two compare, and slots fade alike
//   rule.rests(p, slots...)  true if this step moves p by at most an eighth of the distance without a gradient. Then it leaves
//                            p unchanged, and so does each later step by a rule that is alike, for as long as the product of
//                            the falls since then, times its reach, does not exceed this reach
//   rule.faded(i, x)         x, in slot number i, after the step without a gradient: the bits of the rule itself
// A device calls `rests` and `faded` with the numbers of its calls of the rule: both are PARALLAX_HOST_DEVICE then.
template <class Rule, class T, class... S>
concept Resting = requires(Rule const& rule, T p, S... held) {
  { rule.pace() }
  noexcept->std::same_as<Pace>;
  { rule.alike(rule) }
  noexcept->std::same_as<bool>;
  { rule.rests(p, held...) }
  noexcept->std::same_as<bool>;
  requires(std::same_as<decltype(rule.faded(std::size_t{}, held)), S> && ...);
};

namespace detail {

// Bounds by which the rules of this library know rest. A mean that loses a share of itself in each step is rounded in each,
// among the smallest numbers to two thirds of the share or to twice as much. In the end it is stuck: it stays unchanged, with
// less than half the smallest number to lose.
namespace resting {

// Least share: of smaller ones the roundings of a step would not be small.
inline constexpr double least_share = 0x1p-20;
// Least size of parameters that rest beside any slot. Smaller ones rest only beside a slot of 0: a stuck mean could move them.
inline constexpr double least_size = 0x1p-60;
// Greatest ratio of an update to a stuck mean at which it moves no other parameter.
inline constexpr double most_gain = 0x1p55;

// Returns the most that is left of a mean after a step in which it loses this share, unless it is stuck.
constexpr double left_at_most(double share) { return 1 - share / 1.5; }
// Returns the least that is left of it after such a step.
constexpr double left_at_least(double share) { return 1 - 2 * share; }
// Returns true if a mean that loses this share falls by more than roundings.
constexpr bool is_share(double share) { return share >= least_share && share <= 1; }
// Returns true if a setting is no larger than any type holds, and not below `least`, which is not negative. -0 is below 0:
// parameters of -0 would show it.
constexpr bool is_least(double setting, double least) {
  return setting >= least && setting <= 1e30 && std::bit_cast<std::int64_t>(setting) >= 0;
}

// Number type beside a device's, if T is one of its types that round by themselves.
template <class T>
using Number =
    std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<sizeof(T) == sizeof(float), float, double>>;
// Greatest number, by a name known to devices.
template <class T>
inline constexpr T greatest = std::numeric_limits<T>::max();
// Greatest update, as a share of its parameter, that the parameter does not show.
template <class T>
inline constexpr T unseen_share = std::numeric_limits<T>::epsilon() / T{16};

// Returns true if a mean of squares is one: a finite number that is not negative.
template <class T>
PARALLAX_HOST_DEVICE bool is_mean(T x) noexcept {
  return x >= T{0} && x <= greatest<Number<T>>;
}
// Returns true if p does not show an update of rate · moved / denominator, nor one of four times the size. Half the distance to
// its neighbours is |p| · epsilon / 4 at least.
template <class T>
PARALLAX_HOST_DEVICE bool is_unseen(T p, T rate, T moved, T denominator) noexcept {
  if (moved == T{0}) return true;
  T const size = p < T{0} ? -p : p, update = moved < T{0} ? rate * -moved : rate * moved;
  return size >= static_cast<T>(least_size) && size <= greatest<Number<T>> &&
         update <= size * unseen_share<Number<T>> * denominator;
}

}  // namespace resting

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Base of rules with means as slots that move a parameter by a multiple of its gradient: none without one.
struct RuleOfMeans {
  double rate,  // learning_rate
      share,    // 1 - decay
      epsilon;  // as the setting

  // Returns the pace.
  Pace pace() const noexcept {
    bool const rests =
        resting::is_least(rate, 0) && resting::is_least(epsilon, resting::least_size) && share >= 0 && share <= 1;
    return rests ? Pace{0, 1} : Pace{};
  }
  // Returns true if the other rule lets slots fade alike.
  bool alike(RuleOfMeans const& other) const noexcept { return share == other.share; }
  // Returns a mean after a step without a gradient.
  template <class T>
  PARALLAX_HOST_DEVICE T faded(std::size_t, T x) const noexcept {
    PARALLAX_NO_CONTRACT
    return x + static_cast<T>(share) * (T{0} - x);
  }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace detail
}  // namespace parallax
