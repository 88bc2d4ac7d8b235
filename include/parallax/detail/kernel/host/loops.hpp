// The loops under the host's row operations: prefetch ahead, sums in a fixed order, a rule applied to elements. Only the
// other headers of the room include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/streamed.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2 {
namespace detail {

// Bytes of one transfer between memory and caches.
inline constexpr std::size_t cache_line = 64;
inline constexpr std::size_t rows_ahead = 8;  // distance of the prefetch before the row at hand

// Announcement of a prefetch, in the numbers of __builtin_prefetch.
enum class Access : int { read = 0, write = 1 };

// Asks for the lines of a row needed soon; `locality` as of __builtin_prefetch: 3 all caches, 2 from the second one on. Inlined
// by force: g++ takes a function that does nothing else for one without effect, and drops the calls.
template <Access access, int locality = 3, class T>
[[gnu::always_inline]] inline void prefetch_row(T const* row, std::int64_t width) {
  constexpr int write = static_cast<int>(access);
  auto const* line = reinterpret_cast<char const*>(row);
  auto bytes = width * static_cast<std::int64_t>(sizeof(T));
  constexpr std::int64_t four = 4 * cache_line;
  for (; bytes >= four; bytes -= four, line += four) {
    __builtin_prefetch(line, write, locality);
    __builtin_prefetch(line + cache_line, write, locality);
    __builtin_prefetch(line + 2 * cache_line, write, locality);
    __builtin_prefetch(line + 3 * cache_line, write, locality);
  }
  for (; bytes > 0; bytes -= four / 4, line += cache_line) __builtin_prefetch(line, write, locality);
}

// Copies n elements in one piece, nothing from a null pointer.
template <class T>
inline void copy_elements(T* __restrict out, T const* __restrict in, std::int64_t n) {
  if (n > 0) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(T));
}

// Copies n elements as copy_elements does: up to some lines, calling memcpy costs more than it gains.
template <class T>
inline void copy_row(T* __restrict out, T const* __restrict in, std::int64_t n) {
  constexpr std::int64_t line = cache_line / sizeof(T), many = 8 * line;
  if (n >= many) return copy_elements(out, in, n);
  for (; n >= line; n -= line, out += line, in += line) std::memcpy(out, in, cache_line);
  copy_elements(out, in, n);
}

// Adds n elements, out += in, line by line, so compilers vectorise without asking first for the length of the row.
template <class T>
inline void add_elements(T* __restrict out, T const* __restrict in, std::int64_t n) {
  constexpr std::int64_t line = cache_line / sizeof(T);
  for (; n >= line; n -= line, out += line, in += line)
    for (std::int64_t i = 0; i < line; ++i) out[i] += in[i];
  for (std::int64_t i = 0; i < n; ++i) out[i] += in[i];
}

// Sets values[i] = f(values[i]) for n values, line by line as add_elements.
template <class T, class F>
inline void change_elements(T* values, std::int64_t n, F const& f) {
  constexpr std::int64_t line = cache_line / sizeof(T);
  for (; n >= line; n -= line, values += line)
    for (std::int64_t i = 0; i < line; ++i) values[i] = f(values[i]);
  for (std::int64_t i = 0; i < n; ++i) values[i] = f(values[i]);
}
// Returns true if the divisor is 1, 2, 4, …, 2^30: its reciprocal is exact.
template <class T>
bool is_small_power_of_two(T divisor) {
  if (!(divisor >= T{1} && divisor <= T{1 << 30})) return false;
  auto const whole = static_cast<std::uint32_t>(divisor);
  return static_cast<T>(whole) == divisor && (whole & (whole - 1)) == 0;
}

// Calls visit(i, row) for the table row of each of `indices`, in order. Rows are asked for some rows before: rows from memory
// twice, for the second cache can wait for more lines at a time.
template <Access access, class T, class Index, class Visit>
[[gnu::always_inline]] inline void for_each_row(RowsView<T> table, std::span<Index> indices,
                                                Directory<std::remove_const_t<Index>> directory, Visit const& visit) {
  auto const row_of = [&](std::size_t i) { return table.row(directory(indices[i])); };
  std::size_t const n = indices.size();
  std::size_t i = 0;
  if (n * static_cast<std::size_t>(table.width) * sizeof(T) >= many_bytes)
    for (; i + 2 * rows_ahead < n; ++i) {
      prefetch_row<access, 2>(row_of(i + 2 * rows_ahead), table.width);
      prefetch_row<access>(row_of(i + 2), table.width);
      visit(static_cast<std::int64_t>(i), row_of(i));
    }
  for (; i < n; ++i) {
    if (i + rows_ahead < n) prefetch_row<access>(row_of(i + rows_ahead), table.width);
    visit(static_cast<std::int64_t>(i), row_of(i));
  }
}

// Columns [begin, begin + count) of a table of rows. Sums over many rows are made by tiles of 256 columns, so the partial sum
// stays in the first cache.
struct Columns {
  std::int64_t begin, count;
};

// Sets out = the sum of some columns of rows order[first] … order[last - 1], in order, starting from a copy of the first.
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

// Adds to `out`, with the first chunk's sum, the sums of the later chunks of the run [first, last) in order.
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

// Sums over ranks of each rank's own sums of its rows. Made by coalesce_lent for one call. An owner's position means a row of
// one rank. This row may itself be a sum of rows in the rank's memory: both sums are formed here, in the order in which the
// ranks and then the owner would have formed them.
template <class T>
class LentSums {
 public:
  // Refers to the caller's arrays. `begins` has one entry more than `ranks`: position p is of rank r with begins[r] <= p <
  // begins[r + 1]. `order` are the positions by distinct key.
  LentSums(std::span<LentRows<T> const> ranks, std::span<std::size_t const> begins, std::span<std::uint32_t const> order)
      : ranks_{ranks}, begins_{begins}, order_{order} {}

  // Sets row k of out, of `width` elements, = the sum of the rows at positions order[offsets[k]] … order[offsets[k + 1] - 1],
  // at least one. The place of a row is found out some rows before it is read.
  void write(std::span<std::uint32_t const> offsets, std::int64_t width, T* __restrict out) const {
    LentRow runs[rows_ahead];
    for (std::size_t i = 0; i < std::min(rows_ahead, order_.size()); ++i) runs[i] = run_ahead(i, width);
    for (std::size_t k = 0, i = 0; k + 1 < offsets.size(); ++k, out += width)
      for (bool adds = false; i < offsets[k + 1]; ++i, adds = true) {
        LentRow const run = runs[i % rows_ahead];
        if (i + rows_ahead < order_.size()) runs[i % rows_ahead] = run_ahead(i + rows_ahead, width);
        if (run.end - run.begin > 1) sum(run, width, out, adds);
        else if (adds) add_elements(out, run.first, width);
        else copy_row(out, run.first, width);
      }
  }

 private:
  // One lent row. `begin` and `end` bound its summands, in the rank's order; `first` is the first of these rows.
  struct LentRow {
    LentRows<T> const* rank;
    T const* first;
    std::size_t begin, end;
  };
  // Returns the lent row at entry i of the owner's order, to be read soon. The rank is counted without a branch: nobody could
  // predict the next one.
  LentRow run_ahead(std::size_t i, std::int64_t width) const {
    std::size_t const position = order_[i];
    std::size_t r = 0;
    for (std::size_t other = 1; other < ranks_.size(); ++other) r += begins_[other] <= position;
    LentRows<T> const& rank = ranks_[r];
    std::size_t const row = position - begins_[r];
    LentRow run{&rank, nullptr, row, row + 1};
    if (rank.order) run.begin = rank.offsets[row], run.end = rank.offsets[row + 1];
    run.first = rank.rows.row(static_cast<std::int64_t>(rank.order ? rank.order[run.begin] : row));
    prefetch_row<Access::read>(run.first, width);
    return run;
  }
  // Puts a lent row, itself a sum, into `out`, or adds it, a tile of columns after the other. It is formed first, in chunks
  // like `coalesce`'s: in `out` itself if it is put there, else beside it.
  [[gnu::noinline]] void sum(LentRow const& run, std::int64_t width, T* __restrict out, bool adds) const {
    constexpr std::int64_t tile = 256;
    alignas(cache_line) T partial[tile], later[tile];
    std::span<std::uint32_t const> const order{run.rank->order, run.end};
    for (std::int64_t begin = 0; begin < width; begin += tile) {
      Columns const columns{begin, std::min(tile, width - begin)};
      T* const sum = adds ? partial : out + begin;
      for (std::size_t chunk = run.begin; chunk < run.end; chunk += sum_chunk) {
        bool const first = chunk == run.begin;
        sum_one_chunk<T>(run.rank->rows, order, chunk, std::min(run.end, chunk + sum_chunk), columns, first ? sum : later);
        if (!first) add_elements(sum, later, columns.count);
      }
      if (adds) add_elements(out + begin, partial, columns.count);
    }
  }

  std::span<LentRows<T> const> ranks_;
  std::span<std::size_t const> begins_;
  std::span<std::uint32_t const> order_;
};

// Calls the rule on one element, parameter and slots by value, so they stay in registers and loops vectorise.
template <class Rule, class T, class... S>
inline void apply_one(Rule const& rule, T& parameter, T gradient, S&... slot) noexcept {
  [&](T value, S... held) {
    rule(value, gradient, held...);
    parameter = value;
    ((slot = held), ...);
  }(parameter, slot...);
}

// Applies the rule to n elements. With `scaled` gradients are multiplied by `scale` first. Always inlined, so a loop is
// compiled for each width of vectors.
template <bool scaled, class T, class Rule, class... S>
[[gnu::always_inline]] inline void apply_span(std::int64_t n, T* __restrict parameters, T const* __restrict gradients, T scale,
                                              Rule const& rule, S* __restrict... slot) noexcept {
  PARALLAX_NO_CONTRACT
  for (std::int64_t i = 0; i < n; ++i)
    apply_one(rule, parameters[i], scaled ? static_cast<T>(gradients[i] * scale) : gradients[i], slot[i]...);
}

// Applies the rule by row i of `gradients` to table row directory(indices[i]). Rows of the table and its slots are asked for
// some rows ahead: between ranks that share memory, others have read them since they were written.
template <bool scaled, class T, class Index, class Rule, class... S>
[[gnu::always_inline]] inline void apply_each_row(std::span<Index> indices, Directory<std::remove_const_t<Index>> directory,
                                                  RowsView<T> table, T const* gradients, T scale, Rule const& rule,
                                                  RowsView<S>... slot) noexcept {
  std::int64_t const width = table.width;
  for (std::size_t i = 0; i < indices.size(); ++i, gradients += width) {
    if (i + rows_ahead < indices.size()) {
      std::int64_t const next = directory(indices[i + rows_ahead]);
      prefetch_row<Access::write>(table.row(next), width);
      (prefetch_row<Access::write>(slot.row(next), width), ...);
    }
    std::int64_t const row = directory(indices[i]);
    apply_span<scaled>(width, table.row(row), gradients, scale, rule, slot.row(row)...);
  }
}

// Runs apply_span or apply_each_row with wider vectors: if divisions and square roots take the time, twice as many go at once.
template <bool scaled, class T, class Rule, class... S>
PARALLAX_WIDER void apply_span_wider(std::int64_t n, T* parameters, T const* gradients, T scale, Rule const& rule,
                                     S*... slot) noexcept {
  apply_span<scaled>(n, parameters, gradients, scale, rule, slot...);
}
template <bool scaled, class T, class Index, class Rule, class... S>
PARALLAX_WIDER void apply_each_row_wider(std::span<Index> indices, Directory<std::remove_const_t<Index>> directory,
                                         RowsView<T> table, T const* gradients, T scale, Rule const& rule,
                                         RowsView<S>... slot) noexcept {
  apply_each_row<scaled>(indices, directory, table, gradients, scale, rule, slot...);
}

// Stops the compiler, in one sentence, at a rule that does not fit the scalar and slots, or may throw.
template <class Rule, class T, class... S>
constexpr void require_noexcept_rule() {
  static_assert(std::is_nothrow_invocable_v<Rule const&, T&, T, S&...>,
                "parallax: an optimizer's rule must be callable as rule(parameter&, gradient, slot&...) and be "
                "noexcept: an update is applied as a whole or not at all");
}

}  // namespace detail
}  // namespace parallax

PARALLAX_STRICT_ARITHMETIC_END
