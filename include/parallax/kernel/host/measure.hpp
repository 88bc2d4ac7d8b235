// What an optimizer measures over a row or a tensor before it moves: sums in an order that no vector width changes.
// `RowOps<HostSpace>::measure_elements` calls it in each update of an optimizer that measures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/config.hpp"
#include "parallax/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::detail {

// The sums of rule.measure(parameter, gradient * scale, slots…) over n elements, cut as measured_block says; slots are stored
// afterwards, parameters are not. With scale == 1 nothing is multiplied.
template <class T, class Rule, class... S>
auto measure_elements(std::int64_t n, T const* parameters, T const* gradients, T scale, Rule const& rule,
                      S*... slots) noexcept {
  PARALLAX_NO_CONTRACT
  using Sums = decltype(rule.measure(const_cast<T&>(*parameters), T{}, *slots...));
  constexpr std::size_t count = Sums::count;
  auto const measure_one = [&](T parameter, T gradient, Sums& into, auto... held) {
    PARALLAX_NO_CONTRACT
    Sums const measured = rule.measure(parameter, gradient, held...);
    for (std::size_t k = 0; k < count; ++k) into[k] += measured[k];
    return std::tuple{held...};
  };
  Sums total{};
  for (std::int64_t block = 0; block < n; block += measured_block) {
    std::array<Sums, 8> part{};
    for (std::int64_t i = block; i < std::min(n, block + measured_block); ++i) {
      T const gradient = scale == T{1} ? gradients[i] : static_cast<T>(gradients[i] * scale);
      std::tie(slots[i]...) = measure_one(parameters[i], gradient, part[static_cast<std::size_t>(i % 8)], slots[i]...);
    }
    for (std::size_t k = 0; k < count; ++k)
      total[k] += ((part[0][k] + part[1][k]) + (part[2][k] + part[3][k])) +
                  ((part[4][k] + part[5][k]) + (part[6][k] + part[7][k]));
  }
  return total;
}

}  // namespace parallax::detail

PARALLAX_STRICT_ARITHMETIC_END
