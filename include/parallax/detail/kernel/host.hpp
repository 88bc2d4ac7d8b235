// The row operations in host memory: plain loops that vectorise, prefetch ahead and sum in a documented order. Plans, tables
// and ways call them in every step, also those of devices, whose plans are made on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/short_float.hpp"
#include "parallax/detail/kernel/host/bags.hpp"
#include "parallax/detail/kernel/host/finite.hpp"
#include "parallax/detail/kernel/host/loops.hpp"
#include "parallax/detail/kernel/host/measure.hpp"
#include "parallax/detail/kernel/host/sort.hpp"
#include "parallax/detail/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2 {
namespace detail {

// A rule on sums over ranks: each is divided, and scaled, on its way, and never written back. Made by apply_elements for the
// time of one call. With `scaled` quotients are multiplied by `scale`.
template <bool scaled, class T, class Rule>
struct AveragedRule {
  Rule rule;
  T divisor, scale;

  template <class... S>
  void operator()(T& p, T sum, S&... slot) const noexcept {
    PARALLAX_NO_CONTRACT
    T const average = sum / divisor;
    rule(p, scaled ? static_cast<T>(average * scale) : average, slot...);
  }
};

}  // namespace detail

// Everything works on memory of the caller's; ranges written never overlap ranges read. Widths may be 0 or odd. `out` and
// `rows` are packed: row i begins at `i * width`. Indices are int32, int64 or uint32; a directory turns an index into a table
// row. Calls are local, done when they return, and, but for `bucket`, linear. Only `unique_with_inverse` throws.
template <>
struct RowOps<HostSpace> {
  // The space of the memory.
  using space = HostSpace;

  RowOps() = default;
  // Takes a communicator's queue, as the operations of a device do. A HostQueue orders nothing.
  explicit RowOps(HostQueue) {}

  // Returns `rule` itself, for `apply_elements` and its like; a device's operations may return a place in its memory.
  template <class Rule, class State>
  static Rule const& placed(Rule const& rule, State const&) {
    return rule;
  }

  // Copies `bytes` from one place to another without overlap.
  static void copy_bytes(void* to, void const* from, std::size_t bytes) { parallax::copy_bytes(HostQueue{}, to, from, bytes); }
  // Many copies put together and started at once: dense buckets pack and unpack gradients by them, and row moves rows.
  using Copies = HostCopies;
  // Returns an empty list of copies.
  static Copies copies() { return {}; }

  // Sets `bytes` bytes to zero.
  static void clear(void* memory, std::size_t bytes) {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }
  // Copies n elements from the host's memory to the space's: here a copy like any other.
  template <class T>
  static void from_host(T* to, T const* from, std::size_t n) {
    copy_bytes(to, from, n * sizeof(T));
  }
  // Copies n elements from the space's memory to the host's. They are there once it returns.
  template <class T>
  static void to_host(T* to, T const* from, std::size_t n) {
    copy_bytes(to, from, n * sizeof(T));
  }
  // Returns one value, from the space's memory.
  template <class T>
  static T read(T const* value) {
    return *value;
  }
  // Sets n values to `value`: the initial values of slots, for example.
  template <class T>
  static void fill(T* values, std::size_t n, T value) {
    std::fill_n(values, n, value);
  }

  // Returns, by position of a batch, the number of its distinct key, a view of `groups`: for gather_rows to spread pulled rows.
  template <class Index>
  static std::span<std::uint32_t const> inverse(Grouping<Index> const& groups) {
    return groups.inverse.span();
  }
  // Returns the positions of a batch, run after run, a view of `groups`: for gather_rows to bring rows into the order of keys.
  template <class Index>
  static std::span<std::uint32_t const> order(Grouping<Index> const& groups) {
    return groups.order.span();
  }

  // Groups `keys`, all in [0, bound), by value; the order is a stable sort's. The scratch holds two buffers of 8 bytes a key;
  // it allocates only for more than earlier calls needed. Throws Error (invalid_argument) beyond 2^32 - 1 keys, and
  // std::bad_alloc. A key outside the bound makes wrong groups, but no stray access. `begins`: of keys known to be runs in
  // ascending order, the position of each run's first key, and the number of keys; a few runs are merged, at less cost.
  template <class Index>
  static void unique_with_inverse(std::span<std::type_identity_t<Index> const> keys, std::int64_t bound, Grouping<Index>& out,
                                  SortScratch<Index>& scratch, std::span<std::size_t const> begins = {}) {
    static_assert(std::is_same_v<Index, std::int32_t> || std::is_same_v<Index, std::int64_t>);
    detail::group_keys<Index>(keys, bound, out, scratch, begins);
  }

  // Writes to out, for each distinct key k in [first, last), the sum of the rows of `values` at the positions of its run. The
  // order, exactly: the run in chunks of `sum_chunk` = 64 from its start; a chunk's sum is a copy of its first row, with its
  // other rows added in order; the run's sum is a copy of the first chunk's, with the other chunks' added in order.
  template <class T, class Index>
  static void coalesce(RowsView<std::type_identity_t<T> const> values, Grouping<Index> const& groups, std::size_t first,
                       std::size_t last, T* out);

  // Sums as coalesce does, for all distinct keys, the sums that several ranks, at most sum_chunk, would each make of their own
  // rows: position p means row p - begins[r] of the rank r with p in [begins[r], begins[r + 1]). No rank's sums are held.
  template <class T, class Index>
  static void coalesce_lent(std::span<LentRows<T> const> ranks, std::span<std::size_t const> begins,
                            Grouping<Index> const& groups, std::int64_t width, T* out);

  // Sets out[k - first] = the number of positions of distinct key k, for k in [first, last).
  template <class Index>
  static void run_lengths(Grouping<Index> const& groups, std::size_t first, std::size_t last, std::uint32_t* out) {
    for (std::size_t k = first; k < last; ++k) *out++ = groups.offsets[k + 1] - groups.offsets[k];
  }

  // Sets out[k - first] = the sum of `counts` (one per position) over the positions of key k in [first, last), modulo 2^32.
  template <class Index>
  static void sum_counts(std::span<std::uint32_t const> counts, Grouping<Index> const& groups, std::size_t first,
                         std::size_t last, std::uint32_t* out) {
    for (std::size_t k = first; k < last; ++k) {
      std::uint32_t sum = 0;
      for (std::size_t i = groups.offsets[k]; i < groups.offsets[k + 1]; ++i) sum += counts[groups.order[i]];
      *out++ = sum;
    }
  }

  // Cuts ascending keys at ascending boundaries: begins[k] = the first position with a key >= bases[k], the last one the number
  // of keys; bucket k is [begins[k], begins[k + 1]). `bases` and `begins` are equally long, at least 1.
  template <class Key>
  static void bucket(std::span<Key> sorted_keys, std::span<std::type_identity_t<Key> const> bases,
                     std::span<std::size_t> begins) {
    auto at = sorted_keys.begin();
    for (std::size_t k = 0; k + 1 < bases.size(); ++k) {
      at = std::lower_bound(at, sorted_keys.end(), bases[k]);
      begins[k] = static_cast<std::size_t>(at - sorted_keys.begin());
    }
    begins[bases.size() - 1] = sorted_keys.size();
  }

  // Sets row i of out = table row directory(indices[i]). Output of 8 MB and more is not left in the caches.
  template <class T, class Index>
  static void gather_rows(RowsView<std::type_identity_t<T> const> table, std::span<Index> indices,
                          Directory<std::remove_const_t<Index>> directory, T* out);

  // Gathers rows as gather_rows does, from a table of another type of numbers, W, and widens them.
  template <class W, class T, class Index>
  static void widen_rows(RowsView<W const> table, std::span<Index> indices, Directory<std::remove_const_t<Index>> directory,
                         T* out) {
    detail::for_each_row<detail::Access::read>(table, indices, directory, [&](std::int64_t i, W const* row) {
      widen(row, static_cast<std::size_t>(table.width), out + i * table.width);
    });
  }

  // Sets table row directory(indices[i]) = row i of rows; of equal indices the last one stays.
  template <class T, class Index>
  static void scatter_rows(RowsView<T> table, std::span<Index> indices, Directory<std::remove_const_t<Index>> directory,
                           std::type_identity_t<T> const* rows) {
    detail::for_each_row<detail::Access::write>(
        table, indices, directory, [&](std::int64_t i, T* row) { detail::copy_row(row, rows + i * table.width, table.width); });
  }

  // Adds row i of rows to table row directory(indices[i]), in the order given; indices may repeat.
  template <class T, class Index>
  static void scatter_add_rows(RowsView<T> table, std::span<Index> indices, Directory<std::remove_const_t<Index>> directory,
                               std::type_identity_t<T> const* rows) {
    detail::for_each_row<detail::Access::write>(table, indices, directory, [&](std::int64_t i, T* row) {
      detail::add_elements(row, rows + i * table.width, table.width);
    });
  }

  // Copies rows [first, last) to out, packed.
  template <class T>
  static void pack_rows(RowsView<std::type_identity_t<T> const> rows, std::size_t first, std::size_t last, T* out) {
    for (std::size_t i = first; i < last; ++i, out += rows.width)
      detail::copy_row(out, rows.row(static_cast<std::int64_t>(i)), rows.width);
  }

  // Sums as coalesce does, with term i in place of row i of `values`: each is computed on the way, and never stored.
  template <class T, class Index>
  static void coalesce_terms(RowTerms<T> const& terms, Grouping<Index> const& groups, std::size_t first, std::size_t last,
                             T* out);
  // Sets row k of out = the sum of the terms offsets[k] … offsets[k + 1] - 1, zeros if there are none.
  template <class T>
  static void sum_term_runs(RowTerms<T> const& terms, std::span<std::uint32_t const> offsets, T* out) {
    for (std::size_t k = 0; k + 1 < offsets.size(); ++k, out += terms.rows.width)
      sum_terms(
          terms, offsets[k], offsets[k + 1], [](std::size_t at) { return at; }, out);
  }
  // Places a batch of indices in bags. Bag b has indices begins[b] … begins[b + 1] - 1. `of_index` gets the bag of each index,
  // `kept` of each bag the number of its indices with a distinct key, 1 if none has; and `shares`, unless null, for each index
  // 1 / kept of its bag. `begins` ascend, from 0 to the number of indices.
  template <class T, class Index>
  static void place_in_bags(std::span<std::uint32_t const> begins, Grouping<Index> const& groups, std::uint32_t* of_index,
                            std::uint32_t* kept, T* shares) {
    for (std::size_t bag = 0; bag + 1 < begins.size(); ++bag) {
      std::uint32_t count = 0;
      for (std::uint32_t i = begins[bag]; i < begins[bag + 1]; ++i) {
        of_index[i] = static_cast<std::uint32_t>(bag);
        count += groups.inverse[i] < groups.size();
      }
      kept[bag] = std::max(count, 1u);
      if (shares) std::fill_n(shares + begins[bag], begins[bag + 1] - begins[bag], T{1} / static_cast<T>(kept[bag]));
    }
  }
  // Sets row i of out = the term `positions[i]` alone, times its factor if there are factors.
  template <class T>
  static void gather_terms(RowTerms<T> const& terms, std::span<std::uint32_t const> positions, T* out) {
    for (std::size_t i = 0; i < positions.size(); ++i, out += terms.rows.width)
      sum_terms(
          terms, i, i + 1, [&](std::size_t at) { return positions[at]; }, out);
  }

  // Copies n contiguous elements; `out` and `in` do not overlap.
  template <class T>
  static void copy_from(T* out, std::type_identity_t<T> const* in, std::int64_t n) {
    detail::copy_elements(out, in, n);
  }

  // Adds element by element, `out += in`, n contiguous elements; each sum is rounded by itself.
  template <class T>
  static void add_to(T* out, std::type_identity_t<T> const* in, std::int64_t n) {
    detail::add_elements(out, in, n);
  }

  // Divides each of n elements truly: by a power of two it has the bits of a multiplication by the reciprocal.
  template <class T>
  static void scale_down(T* values, std::int64_t n, std::type_identity_t<T> divisor) {
    if (detail::is_small_power_of_two(divisor))
      detail::change_elements(values, n, [factor = T{1} / divisor](T value) { return value * factor; });
    else detail::change_elements(values, n, [divisor](T value) { return value / divisor; });
  }

  // Divides row i of `values`, of `width` elements, by counts[i], as scale_down does.
  template <class T>
  static void scale_rows_down(T* values, std::int64_t width, std::span<std::uint32_t const> counts) {
    for (std::size_t i = 0; i < counts.size(); ++i)
      scale_down(values + static_cast<std::int64_t>(i) * width, width, static_cast<T>(counts[i]));
  }

  // Divides each of the rows, of width + 1 elements, by its last element, if more than one; the last one itself stays.
  template <class T>
  static void scale_counted_rows_down(T* values, std::int64_t rows, std::int64_t width) {
    for (T* row = values; row != values + rows * (width + 1); row += width + 1)
      if (row[width] > T{1}) scale_down(row, width, row[width]);
  }

  // Returns the sum of the squares of n values in double, cut by the rule of measured_block.
  template <class T>
  static double sum_of_squares(T const* values, std::int64_t n) {
    if (n <= measured_block) return squares_of_block(values, n);
    detail::SumsInGroups<1> sums;
    for (; n > 0; values += measured_block, n -= measured_block)
      sums.add(Measures<1>{{squares_of_block(values, std::min(n, measured_block))}});  // nvcc drops optional braces
    return sums.total()[0];
  }
  // Returns the sum of all rows' sums of squares, added by the rule of sum_group.
  template <class T>
  static double sum_of_row_squares(RowsView<T const> rows) {
    detail::SumsInGroups<1> sums;
    for (std::int64_t row = 0; row < rows.rows; ++row) sums.add(Measures<1>{{sum_of_squares(rows.row(row), rows.width)}});
    return sums.total()[0];
  }

  // Calls `rule(parameter, gradient, slots…)` for each of n elements, parameter and slots as lvalues, stored afterwards. The
  // rule is noexcept and may not rely on an order of elements. Memory: each array is read once, parameters and slots are
  // written once.
  template <class T, class Rule, class... S>
  static void apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, Unscaled,
                             Rule const& rule, S*... slot) noexcept {
    detail::require_noexcept_rule<Rule, T, S...>();
    span<false>(n, parameters, gradients, T{1}, rule, slot...);
  }
  // Calls the rule as the form with Unscaled does, with every gradient multiplied by `scale`, rounded to T, before the rule
  // sees it. With `scale == 1` nothing is multiplied.
  template <class T, class Rule, class... S>
  static void apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients,
                             std::type_identity_t<T> scale, Rule const& rule, S*... slot) noexcept {
    detail::require_noexcept_rule<Rule, T, S...>();
    if (scale == T{1}) span<false>(n, parameters, gradients, scale, rule, slot...);
    else span<true>(n, parameters, gradients, scale, rule, slot...);
  }

  // Calls the rule as the form with Unscaled does, with sums over ranks in place of gradients: each is divided by
  // `average.divisor`, and then multiplied by `average.scale`, each rounded to T. With a scale of 1 nothing is multiplied.
  template <class T, class Rule, class... S>
  static void apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* sums,
                             Averaged<std::type_identity_t<T>> average, Rule const& rule, S*... slot) noexcept {
    using detail::AveragedRule;
    auto const apply = [&](auto const& averaged) { apply_elements(n, parameters, sums, Unscaled{}, averaged, slot...); };
    if (average.scale == T{1}) apply(AveragedRule<false, T, Rule>{rule, average.divisor, average.scale});
    else apply(AveragedRule<true, T, Rule>{rule, average.divisor, average.scale});
  }

  // Calls the rule for the elements of table row directory(indices[i]), with packed row i of `gradients` times `scale`. Slots
  // are tables of the parameters' rows and width. In the order given; a repeated index is applied repeatedly.
  template <class T, class Index, class Rule, class... S>
  static void apply_rows(std::span<Index> indices, Directory<std::remove_const_t<Index>> directory, RowsView<T> table,
                         std::type_identity_t<T> const* gradients, std::type_identity_t<T> scale, Rule const& rule,
                         RowsView<S>... slot) noexcept {
    detail::require_noexcept_rule<Rule, T, S...>();
    if (scale == T{1}) each_row<false>(indices, directory, table, gradients, scale, rule, slot...);
    else each_row<true>(indices, directory, table, gradients, scale, rule, slot...);
  }

  // Writes to `out` the sums of the rule's measures of n elements, one each, cut by the rule of measured_block. Slots may move.
  template <class T, class Rule, class... S>
  static void measure_elements(std::int64_t n, T const* parameters, std::type_identity_t<T> const* gradients,
                               std::type_identity_t<T> scale, Rule const& rule, double* out, S*... slot) noexcept {
    auto const sums = detail::measure_elements(n, parameters, gradients, scale, rule, slot...);
    std::copy(sums.begin(), sums.end(), out);
  }
  // Returns the rule for elements that `rule.finish` makes of all parts' sums, of `n` elements together.
  template <std::size_t K, class Rule>
  static auto finish_rule(Rule const& rule, MeasuredParts<K> parts, std::int64_t n) noexcept {
    return rule.finish(parts.total(), n);
  }

 private:
  // Returns the sum of the squares of a block of at most measured_block values: of eight partial sums, in the order told there.
  template <class T>
  static double squares_of_block(T const* values, std::int64_t n) {
    PARALLAX_NO_CONTRACT
    double part[8] = {};
    auto const add = [&](std::int64_t at, int k) {
      double const value = static_cast<double>(values[at + k]);
      part[k] += value * value;
    };
    std::int64_t const whole = n - n % 8;
    for (std::int64_t i = 0; i < whole; i += 8)
      for (int k = 0; k < 8; ++k) add(i, k);
    for (int k = 0; k < n - whole; ++k) add(whole, k);
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  }
  // Runs the loop over elements, compiled for wider vectors if this machine has them; the choice is made at run time.
  template <bool scaled, class... Arguments>
  static void span(Arguments const&... arguments) noexcept {
    if constexpr (detail::may_widen && !detail::is_wide)
      if (detail::machine_is_wider()) return detail::apply_span_wider<scaled>(arguments...);
    detail::apply_span<scaled>(arguments...);
  }
  // Runs the loop over rows, compiled for wider vectors if this machine has them.
  template <bool scaled, class... Arguments>
  static void each_row(Arguments const&... arguments) noexcept {
    if constexpr (detail::may_widen)
      if (detail::machine_is_wider()) return detail::apply_each_row_wider<scaled>(arguments...);
    detail::apply_each_row<scaled>(arguments...);
  }
};

template <class T, class Index>
void RowOps<HostSpace>::coalesce(RowsView<std::type_identity_t<T> const> values, Grouping<Index> const& groups,
                                 std::size_t first, std::size_t last, T* out) {
  std::span const order = groups.order.span();
  for (std::size_t k = first; k < last; ++k, out += values.width) {
    std::size_t const begin = groups.offsets[k], end = groups.offsets[k + 1];
    detail::sum_one_chunk<T>(values, order, begin, std::min(end, begin + sum_chunk), {0, values.width}, out);
    if (end - begin > sum_chunk) detail::add_later_chunks<T>(values, order, begin, end, out);
  }
}

template <class T, class Index>
void RowOps<HostSpace>::coalesce_lent(std::span<LentRows<T> const> ranks, std::span<std::size_t const> begins,
                                      Grouping<Index> const& groups, std::int64_t width, T* out) {
  detail::LentSums<T>{ranks, begins, groups.order.span()}.write(groups.offsets.span().first(groups.size() + 1), width, out);
}

template <class T, class Index>
void RowOps<HostSpace>::gather_rows(RowsView<std::type_identity_t<T> const> table, std::span<Index> indices,
                                    Directory<std::remove_const_t<Index>> directory, T* out) {
  std::size_t const row_bytes = static_cast<std::size_t>(table.width) * sizeof(T);
  bool const streams = detail::can_stream(out, row_bytes, indices.size());
  detail::for_each_row<detail::Access::read>(table, indices, directory, [&](std::int64_t i, T const* row) {
    if (streams) detail::stream_words(out + i * table.width, row, row_bytes);
    else detail::copy_row(out + i * table.width, row, table.width);
  });
  if (streams) detail::end_stream();
}

template <class T, class Index>
void RowOps<HostSpace>::coalesce_terms(RowTerms<T> const& terms, Grouping<Index> const& groups, std::size_t first,
                                       std::size_t last, T* out) {
  for (std::size_t k = first; k < last; ++k, out += terms.rows.width)
    sum_terms(
        terms, groups.offsets[k], groups.offsets[k + 1], [&](std::size_t at) { return groups.order[at]; }, out);
}

}  // namespace parallax

PARALLAX_STRICT_ARITHMETIC_END
