// Learning rates as functions of the step: small values that compose. A trainer makes one before training, and asks it before
// each step.
//   auto const rate = px::warmup(px::cosine(0.1, 90'000), 1'000);
//   weights.optimizer().learning_rate = rate(session.steps());
// A schedule is any callable double(std::int64_t step), step = 0 before the first update; every rank asks for an equal step.
// Ranks compare the settings of an optimizer in every step, and find out a rank with another rate. An optimizer with exact
// semantics remembers the settings of the steps that rows missed: it settles all rows after 256 changes.
#pragma once

#include <cstdint>
#include <numbers>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/math.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Returns a schedule in steps: `rate` until step `every`, then `factor` times as much for each further `every` steps. An
// `every` below 1 counts as 1.
inline auto step_decay(double rate, std::int64_t every, double factor = 0.1) {
  return [=](std::int64_t step) {
    return rate * detail::pow(factor, static_cast<double>(step / std::max<std::int64_t>(every, 1)));
  };
}

namespace detail {
// Returns the part of `steps` passed by `step`, in [0, 1].
inline double part_of(std::int64_t step, std::int64_t steps) {
  return std::clamp(static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(steps, 1)), 0.0, 1.0);
}
}  // namespace detail

// Returns a schedule from `rate` to `last` on half a cosine over `steps`: Loshchilov and Hutter, ICLR 2017, eq. 5, no restarts.
inline auto cosine(double rate, std::int64_t steps, double last = 0.0) {
  return [=](std::int64_t step) {
    double const passed = detail::part_of(step, steps);
    return last + (rate - last) * 0.5 * (1 + detail::cos(std::numbers::pi * passed));
  };
}

// Returns a schedule from `rate` to `last`, as the given power of the rest of `steps`; power 1 is linear.
inline auto polynomial(double rate, std::int64_t steps, double power = 1.0, double last = 0.0) {
  return [=](std::int64_t step) {
    double const passed = detail::part_of(step, steps);
    return last + (rate - last) * detail::pow(1 - passed, power);
  };
}

// Returns a schedule: `rate` up to step `flat`, then rate · sqrt(flat / step): Vaswani et al., NIPS 2017, 5.3, no warm-up.
inline auto inverse_sqrt(double rate, std::int64_t flat) {
  return [=](std::int64_t step) {
    auto const from = static_cast<double>(std::max<std::int64_t>(flat, 1));
    return rate * detail::square_root(from / std::max(static_cast<double>(step), from));
  };
}

// Returns a schedule in a line over the first `steps`, then of `then`, a schedule or a number: step s gets (s + 1) / (steps +
// 1) of it. Goyal et al., arXiv 1706.02677, section 2.2.
template <class Schedule>
auto warmup(Schedule then, std::int64_t steps) {
  return [=](std::int64_t step) -> double {
    double rate = 0;
    if constexpr (requires { then(step); }) rate = then(step);
    else rate = then;
    return step >= steps ? rate : rate * static_cast<double>(step + 1) / static_cast<double>(steps + 1);
  };
}

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
