// Rows that rest, on the host: the check that all elements of a row do, and the steps' effect on its slots meanwhile. The
// optimizer's state beside a table calls it for rules that are `Resting`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/optimizer/resting.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// The number of elements checked, and faded, at once, in a processor's registers.
inline constexpr std::size_t resting_at_once = 16;

// Returns true if each of n elements rests by `rule`, of the next step; `slot`: their entries. Mostly looks at one if not.
template <class Rule, class T, class... S>
bool all_rest(Rule const& rule, std::size_t n, T const* parameters, S const*... slot) noexcept {
  if (n > 0 && !rule.rests(parameters[0], slot[0]...)) return false;
  std::size_t at = 0;
  for (; at + resting_at_once <= n; at += resting_at_once) {
    int moving = 0;
    for (std::size_t j = at; j < at + resting_at_once; ++j) moving += !rule.rests(parameters[j], slot[j]...);
    if (moving > 0) return false;
  }
  for (; at < n; ++at)
    if (!rule.rests(parameters[at], slot[at]...)) return false;
  return true;
}

// Takes the N elements at `values`, of slot number `slot`, through `steps` steps by rules like this one, or until none changes.
template <std::size_t N, class Rule, class S>
void fade_some(Rule const& rule, std::size_t slot, std::int64_t steps, S* values) noexcept {
  constexpr std::int64_t between = 32;  // steps from one look at changes to the next
  S held[N], before[N];
  std::memcpy(held, values, sizeof held);
  for (std::int64_t step = 0; step < steps; ++step) {
    bool const looks = step % between == 0;
    if (looks) std::memcpy(before, held, sizeof held);
    for (std::size_t j = 0; j < N; ++j) held[j] = rule.faded(slot, held[j]);
    if (looks && std::memcmp(before, held, sizeof held) == 0) break;
  }
  std::memcpy(values, held, sizeof held);
}
// Takes the n elements at `values`, of slot number `slot`, through `steps` steps by rules like this one.
template <class Rule, class S>
void fade(Rule const& rule, std::size_t slot, std::int64_t steps, std::size_t n, S* values) noexcept {
  std::size_t at = 0;
  for (; at + resting_at_once <= n; at += resting_at_once) fade_some<resting_at_once>(rule, slot, steps, values + at);
  for (; at < n; ++at) fade_some<1>(rule, slot, steps, values + at);
}

PARALLAX_STRICT_ARITHMETIC_END

// Returns true if all of the `bytes` bytes at `run` are 0, or there are none.
inline bool is_blank(void const* run, std::size_t bytes) noexcept {
  auto const* const first = static_cast<unsigned char const*>(run);
  return bytes == 0 || (first[0] == 0 && std::memcmp(first, first + 1, bytes - 1) == 0);
}

}  // namespace parallax::detail
