// An optimizer's measures over a row or a tensor before it moves: sums in an order that no vector width changes.
// `RowOps<HostSpace>::measure_elements` calls it in each update of an optimizer that measures.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::detail {

// Adds numbers, K at once for K sums, in the order of sum_group, as they come. At each level it holds the begun group.
template <std::size_t K>
class SumsInGroups {
 public:
  // Adds the next number of each sum.
  void add(Measures<K> numbers) noexcept {
    std::uint64_t nth = ++count_;
    for (std::size_t level = 0;; ++level, nth /= sum_group) {
      if (nth % sum_group == 1) begun_[level] = {};
      add_to(begun_[level], numbers);
      if (nth % sum_group > 0) return;
      numbers = begun_[level];
    }
  }
  // Returns the sums of all added numbers; zeros if there were none.
  Measures<K> total() const noexcept {
    Measures<K> sums{};
    std::size_t level = 0;
    for (std::uint64_t whole = count_; whole > 0; whole /= sum_group, ++level)
      if (whole % sum_group > 0) {
        Measures<K> group = begun_[level];
        add_to(group, sums);  // the level's last number, of the rest below
        sums = group;
      }
    return sums;
  }

 private:
  static void add_to(Measures<K>& sums, Measures<K> const& numbers) noexcept {
    PARALLAX_NO_CONTRACT
    for (std::size_t k = 0; k < K; ++k) sums[k] += numbers[k];
  }

  std::uint64_t count_ = 0;
  std::array<Measures<K>, 11> begun_;  // 64^11 > 2^64; a level is set to zeros as a group of it begins
};

// Returns the sums of rule.measure(parameter, gradient * scale, slots…) over n elements, cut as measured_block says; slots are
// stored afterwards, parameters are not. With scale == 1 nothing is multiplied.
template <class T, class Rule, class... S>
auto measure_elements(std::int64_t n, T const* parameters, T const* gradients, T scale, Rule const& rule, S*... slot) noexcept {
  PARALLAX_NO_CONTRACT
  using Sums = decltype(rule.measure(const_cast<T&>(*parameters), T{}, *slot...));
  constexpr std::size_t count = Sums::count;
  auto const measure_one = [&](T parameter, T gradient, Sums& into, auto... held) {
    PARALLAX_NO_CONTRACT
    Sums const measured = rule.measure(parameter, gradient, held...);
    for (std::size_t k = 0; k < count; ++k) into[k] += measured[k];
    return std::tuple{held...};
  };
  SumsInGroups<count> all;
  for (std::int64_t block = 0; block < n; block += measured_block) {
    std::array<Sums, 8> part{};
    for (std::int64_t i = block; i < std::min(n, block + measured_block); ++i) {
      T const gradient = scale == T{1} ? gradients[i] : static_cast<T>(gradients[i] * scale);
      std::tie(slot[i]...) = measure_one(parameters[i], gradient, part[static_cast<std::size_t>(i % 8)], slot[i]...);
    }
    Sums of_block{};
    for (std::size_t k = 0; k < count; ++k)
      of_block[k] = ((part[0][k] + part[1][k]) + (part[2][k] + part[3][k])) +
                    ((part[4][k] + part[5][k]) + (part[6][k] + part[7][k]));
    all.add(of_block);
  }
  return all.total();
}

}  // namespace parallax::detail

PARALLAX_STRICT_ARITHMETIC_END
