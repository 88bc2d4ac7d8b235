// The loops under the host's row operations: prefetch ahead, sums in a fixed order, a rule applied to elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "parallax/core/config.hpp"
#include "parallax/core/view.hpp"
#include "parallax/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax {
namespace detail {

inline constexpr std::size_t cache_line = 64;
inline constexpr std::size_t rows_ahead = 8;  // how far in front of the row at hand the prefetch runs

enum class Access : int { read = 0, write = 1 };

// Asks for the lines of a row that will be needed soon.
template <Access access, class T>
inline void prefetch_row(T const* row, std::int64_t width) {
  auto const* const first = reinterpret_cast<char const*>(row);
  std::size_t const bytes = static_cast<std::size_t>(width) * sizeof(T);
  for (std::size_t at = 0; at < bytes; at += cache_line) __builtin_prefetch(first + at, static_cast<int>(access));
}

template <class T>
inline void copy_elements(T* __restrict out, T const* __restrict in, std::int64_t n) {
  if (n > 0) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(T));
}

template <class T>
inline void add_elements(T* __restrict out, T const* __restrict in, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += in[i];
}

// Visits the table rows that `indices` name, the row eight further on its way: visit(i, row).
template <Access access, class T, class I, class Visit>
inline void for_each_row(RowsView<T> table, std::span<I> indices, std::remove_const_t<I> base, Visit const& visit) {
  auto const row_of = [&](std::size_t i) {
    return table.row(static_cast<std::int64_t>(indices[i]) - static_cast<std::int64_t>(base));
  };
  std::size_t const n = indices.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (i + rows_ahead < n) prefetch_row<access>(row_of(i + rows_ahead), table.width);
    visit(static_cast<std::int64_t>(i), row_of(i));
  }
}

// Columns [begin, begin + count) of a table of rows.
struct Columns {
  std::int64_t begin, count;
};

// out = the sum of some columns of rows order[first] … order[last - 1], in order, starting from a copy of the first.
template <class T>
inline void sum_one_chunk(RowsView<T const> values, std::span<std::uint32_t const> order, std::size_t first,
                          std::size_t last, Columns columns, T* __restrict out) {
  auto const next = [&](std::size_t i) {
    if (i + rows_ahead < order.size())
      prefetch_row<Access::read>(values.row(order[i + rows_ahead]) + columns.begin, columns.count);
    return values.row(order[i]) + columns.begin;
  };
  copy_elements(out, next(first), columns.count);
  for (std::size_t i = first + 1; i < last; ++i) add_elements(out, next(i), columns.count);
}

// Adds to `out`, which holds the first chunk's sum, the sums of the later chunks of the run [first, last) in order.
template <class T>
inline void add_later_chunks(RowsView<T const> values, std::span<std::uint32_t const> order, std::size_t first,
                             std::size_t last, T* __restrict out) {
  constexpr std::int64_t tile = 256;
  alignas(cache_line) T partial[tile];
  for (std::int64_t begin = 0; begin < values.width; begin += tile) {
    Columns const columns{begin, std::min(tile, values.width - begin)};
    for (std::size_t chunk = first + sum_chunk; chunk < last; chunk += sum_chunk) {
      sum_one_chunk(values, order, chunk, std::min(chunk + sum_chunk, last), columns, partial);
      add_elements(out + begin, partial, columns.count);
    }
  }
}

// Calls the rule on one element, parameter and slots by value, so that they stay in registers and loops vectorise.
template <class Rule, class T, class... S>
inline void apply_one(Rule const& rule, T& parameter, T gradient, S&... slots) noexcept {
  [&](T value, S... held) {
    rule(value, gradient, held...);
    parameter = value;
    ((slots = held), ...);
  }(parameter, slots...);
}

template <bool scaled, class T, class Rule, class... S>
inline void apply_span(std::int64_t n, T* __restrict parameters, T const* __restrict gradients, T scale,
                       Rule const& rule, S* __restrict... slots) noexcept {
  PARALLAX_NO_CONTRACT
  for (std::int64_t i = 0; i < n; ++i)
    apply_one(rule, parameters[i], scaled ? static_cast<T>(gradients[i] * scale) : gradients[i], slots[i]...);
}

template <class Rule, class T, class... S>
constexpr void require_noexcept_rule() {
  static_assert(std::is_nothrow_invocable_v<Rule const&, T&, T, S&...>,
                "parallax: an optimizer's rule must be callable as rule(parameter&, gradient, slot&...) and be "
                "noexcept: an update is applied as a whole or not at all");
}

}  // namespace detail
}  // namespace parallax

PARALLAX_STRICT_ARITHMETIC_END
