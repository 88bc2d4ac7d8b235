// RowOps<CudaSpace> for files compiled by nvcc: the bodies of row_ops.hpp, over the launchers beside it. kernel/cuda.cuh
// includes it, and so do its instantiations for other files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include "parallax/detail/kernel/cuda/bags.cuh"
#include "parallax/detail/kernel/cuda/copies.cuh"
#include "parallax/detail/kernel/cuda/elements.cuh"
#include "parallax/detail/kernel/cuda/placing.cuh"
#include "parallax/detail/kernel/cuda/rows.cuh"
#include "parallax/detail/kernel/cuda/runs.cuh"
#include "parallax/detail/kernel/cuda/settle.cuh"
#include "parallax/detail/kernel/cuda/sums.cuh"
#include "parallax/detail/kernel/cuda/updates.cuh"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2 {
namespace device::detail {

// Grid: threads stride over the elements. Memory: written once.
template <class T>
__global__ void __launch_bounds__(block_threads) fill_kernel(T* values, std::uint64_t n, T value) {
  for (std::uint64_t i = thread_number(); i < n; i += thread_count()) values[i] = value;
}

// Divides row k by counts[k]; without counts by the number behind its elements, if that is more than one.
// Grid: a team of `lanes` threads a row, all teams stride over the rows. Memory: read and written once; a row's number is read
// by each thread of its team.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    scale_rows_down_kernel(RowsView<T> rows, std::uint32_t const* counts, unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  for (std::uint64_t k = team.number; k < static_cast<std::uint64_t>(rows.rows); k += team.count) {
    T* const row = rows.row(static_cast<std::int64_t>(k));
    T const divisor = counts ? static_cast<T>(counts[k]) : row[rows.width];
    if (!counts && !(divisor > T{1})) continue;
    for (std::int64_t at = std::int64_t{team.lane} * N; at < rows.width; at += std::int64_t{lanes} * N) {
      Pack<T, N> pack = load<N>(row + at);
      for (int j = 0; j < N; ++j) pack.at[j] = divide(pack.at[j], divisor);
      store<N>(row + at, pack);
    }
  }
}
// Launches scale_rows_down_kernel for packs of N elements. Throws Error (device).
template <int N, class T>
void scale_rows_down(cudaStream_t stream, RowsView<T> rows, std::uint32_t const* counts) {
  if (rows.rows == 0 || rows.width == 0) return;
  unsigned const lanes = lanes_for(rows.width / N);
  launch(stream, grid_for(ceil_div(static_cast<std::uint64_t>(rows.rows), teams_for(lanes))), block_threads, 0,
         scale_rows_down_kernel<N, T>, rows, counts, lanes);
}

inline constexpr std::uint64_t not_found = ~std::uint64_t{0};

// Returns the least of the numbers found by a block's threads: to thread 0 alone.
__device__ inline std::uint64_t least_of_block(std::uint64_t mine, std::uint64_t (&found)[block_threads]) {
  found[threadIdx.x] = mine;
  for (unsigned half = block_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half && found[threadIdx.x + half] < found[threadIdx.x]) found[threadIdx.x] = found[threadIdx.x + half];
  }
  return threadIdx.x == 0 ? found[0] : mine;
}

// Writes, by each block, the number of the first non-finite element met by its threads, or not_found; elements are numbered row
// by row. A thread stops at its first one. Grid: threads stride over packs of N elements if rows lie packed, and the last n % N
// are taken one by one; else a team of `lanes` threads a row, all teams stride over the rows. Memory: read once.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    first_non_finite_kernel(RowsView<T const> rows, unsigned lanes, std::uint64_t* firsts) {
  __shared__ std::uint64_t found[block_threads];
  std::uint64_t mine = not_found;
  auto const look = [&]<int M>(std::integral_constant<int, M>, T const* at, std::uint64_t number) {
    Pack<T, M> const pack = load<M>(at);
    for (int j = M - 1; j >= 0; --j)
      if (parallax::detail::is_non_finite(pack.at[j])) mine = number + static_cast<unsigned>(j);
  };
  std::integral_constant<int, N> const whole_pack;
  auto const width = static_cast<std::uint64_t>(rows.width);
  if (lanes == 0) {
    std::uint64_t const n = static_cast<std::uint64_t>(rows.rows) * width, whole = n / N * N;
    for (std::uint64_t i = thread_number() * N; i < whole && mine == not_found; i += thread_count() * N)
      look(whole_pack, rows.data + i, i);
    for (std::uint64_t i = whole + thread_number(); i < n && mine == not_found; i += thread_count())
      look(std::integral_constant<int, 1>{}, rows.data + i, i);
  } else if (Team const team{lanes}; !team.idle) {
    for (std::uint64_t k = team.number; k < static_cast<std::uint64_t>(rows.rows) && mine == not_found; k += team.count) {
      T const* const row = rows.row(static_cast<std::int64_t>(k));
      for (std::uint64_t at = std::uint64_t{team.lane} * N; at < width && mine == not_found; at += std::uint64_t{lanes} * N)
        look(whole_pack, row + at, k * width + at);
    }
  }
  std::uint64_t const first = least_of_block(mine, found);
  if (threadIdx.x == 0) firsts[blockIdx.x] = first;
}

// Writes the first non-finite element, by the numbers of the blocks. Grid: one block. Memory: a number for each block is read.
template <class T>
__global__ void __launch_bounds__(block_threads)
    tell_first_kernel(RowsView<T const> rows, std::uint64_t const* firsts, unsigned blocks, NonFiniteElement* out) {
  __shared__ std::uint64_t found[block_threads];
  std::uint64_t mine = not_found;
  for (unsigned i = threadIdx.x; i < blocks; i += block_threads) mine = firsts[i] < mine ? firsts[i] : mine;
  std::uint64_t const first = least_of_block(mine, found);
  if (threadIdx.x > 0) return;
  *out = {rows.rows, 0, 0};
  if (first == not_found) return;
  auto const row = static_cast<std::int64_t>(first / static_cast<std::uint64_t>(rows.width));
  auto const column = static_cast<std::int64_t>(first % static_cast<std::uint64_t>(rows.width));
  *out = {row, column, static_cast<double>(rows.row(row)[column])};
}

// Grid: one thread.
template <std::size_t K, class Rule, class Finished>
__global__ void finish_rule_kernel(Rule rule, MeasuredParts<K> parts, std::int64_t n, Finished* out) {
  *out = settled(rule).finish(parts.total(), n);
}

// Grid: one block. Memory: written once.
template <class List>
__global__ void __launch_bounds__(block_threads) put_bytes_kernel(List const list, std::byte* to) {
  for (std::uint32_t at = threadIdx.x * 4; at < list.count; at += blockDim.x * 4)
    *reinterpret_cast<std::uint32_t*>(to + at) = *reinterpret_cast<std::uint32_t const*>(list.bytes + at);
}

// Returns a rule as kernels are given it: an optimizer's by value; one made by finish_rule, by its address on the device.
template <class Rule>
Rule const& as_argument(Rule const& rule) {
  return rule;
}
template <class Rule>
RuleThere<Rule> as_argument(DeviceBuffer<Rule> const& made) {
  return {made.data()};
}

// Returns a launcher's scaling, for each of the three kinds of apply_elements.
template <class T>
Scaling<T> scaling(Unscaled) {
  return {};
}
template <class T>
Scaling<T> scaling(std::type_identity_t<T> scale) {
  return {T{1}, nullptr, scale};
}
template <class T>
Scaling<T> scaling(Averaged<T> average) {
  return {average.divisor, nullptr, average.scale};
}

}  // namespace device::detail

template <class T>
void RowOps<CudaSpace>::fill(T* values, std::size_t n, T value) const {
  device::launch(stream(), device::detail::grid_for(device::detail::ceil_div(n, device::block_threads)), device::block_threads,
                 0, device::detail::fill_kernel<T>, values, n, value);
}
template <class List>
void RowOps<CudaSpace>::copy_all(List const& list) const {
  device::copy_all(stream(), list);
}
template <class List>
void RowOps<CudaSpace>::put_bytes(List const& list, std::byte* to) const {
  device::launch(stream(), 1, device::block_threads, 0, device::detail::put_bytes_kernel<List>, list, to);
}

template <class Id, class Layout, class Index>
void RowOps<CudaSpace>::place_ids(Id const* ids, std::size_t n, Layout const& layout, Index const* bases,
                                  device::StackView<Index> const& stack, bool hashes, Index* keys) const {
  device::place_ids(stream(), ids, n, layout, bases, stack, hashes, keys);
}
template <class Offset>
void RowOps<CudaSpace>::take_offsets(Offset const* offsets, std::size_t bags, std::size_t n, std::uint32_t* begins) const {
  device::launch(stream(), static_cast<unsigned>(blocks_of_offsets(bags)), device::block_threads, 0,
                 device::detail::take_offsets_kernel<Offset>, offsets, bags, n, begins);
}
template <class Layout, class Index>
void RowOps<CudaSpace>::rows_of_keys(Index const* keys, std::size_t most, std::uint32_t const* count, Layout const& layout,
                                     Index const* bases, Index* rows) const {
  device::detail::launch_over(stream(), most, device::block_threads, device::detail::rows_of_keys_kernel<Layout, Index>, keys,
                              device::detail::Count{most, count}, layout, bases, rows);
}
template <class Index>
void RowOps<CudaSpace>::take_keys(Index const* keys, std::size_t most, std::uint32_t const* count, Index none,
                                  Index* out) const {
  device::detail::launch_over(stream(), most, device::block_threads, device::detail::take_keys_kernel<Index>, keys, most, count,
                              none, out);
}

template <class Index>
void RowOps<CudaSpace>::pad_groups(device::GroupingView<Index> const& from, std::uint32_t const* told,
                                   device::Padding const& padding, std::int64_t bound, device::GroupingView<Index> const& to,
                                   device::PaddingTally* tally) const {
  std::uint64_t const places = std::uint64_t{padding.owners} * (padding.capacity + 1) + 1;
  device::detail::launch_over(stream(), std::max<std::uint64_t>(places, from.count), device::block_threads,
                              device::detail::pad_groups_kernel<Index>, from, told, padding, bound, to, tally);
}
template <class Index>
void RowOps<CudaSpace>::drop_padding(device::GroupingView<Index> const& groups, std::int64_t bound) const {
  device::launch(stream(), 1, device::warp_lanes, 0, device::detail::drop_padding_kernel<Index>, groups, bound);
}

template <class Index>
void RowOps<CudaSpace>::cut_groups(device::GroupingView<Index> const& groups, Index const* bases, std::size_t first,
                                   std::size_t stride, std::size_t cuts, std::int64_t bound,
                                   std::span<std::uint32_t const> wrongs, std::uint32_t* told) const {
  device::launch(stream(), 1, device::block_threads, 0, device::detail::cut_groups_kernel<Index>, groups, bases, first, stride,
                 cuts, bound, wrongs.data(), static_cast<std::uint32_t>(wrongs.size()), told);
}
template <class Index>
void RowOps<CudaSpace>::run_lengths(device::GroupingView<Index> const& groups, std::size_t first, std::size_t last,
                                    std::uint32_t* out) const {
  device::run_lengths(stream(), groups, out, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last));
}
template <class Index>
void RowOps<CudaSpace>::sum_counts(std::span<std::uint32_t const> counts, device::GroupingView<Index> const& groups,
                                   std::size_t first, std::size_t last, std::uint32_t* out) const {
  device::sum_counts(stream(), counts.data(), groups, out, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last));
}

template <class T, class Index>
void RowOps<CudaSpace>::coalesce(RowsView<std::type_identity_t<T> const> values, device::GroupingView<Index> const& groups,
                                 std::size_t first, std::size_t last, T* out) const {
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), device::sums_scratch_bytes<T>(groups.count, values.width)};
  device::coalesce(stream(), values, groups, out, scratch.data(), static_cast<std::uint32_t>(first),
                   static_cast<std::uint32_t>(last));
}
template <class T, class Index>
void RowOps<CudaSpace>::gather_rows(RowsView<std::type_identity_t<T> const> table, std::span<Index> indices,
                                    Directory<std::remove_const_t<Index>> directory, T* out) const {
  device::gather_rows(stream(), table, std::span<std::remove_const_t<Index> const>{indices}, directory, out);
}
template <class W, class Index>
void RowOps<CudaSpace>::widen_rows(RowsView<W const> table, std::span<Index> indices,
                                   Directory<std::remove_const_t<Index>> directory, computed_type<W>* out) const {
  if (indices.empty() || table.width == 0) return;
  device::detail::with_packs(
      [&]<int N>() {
        device::detail::launch_teams(stream(), device::detail::ceil_div(indices.size(), device::detail::rows_at_once),
                                     table.width / N, device::detail::widen_rows_kernel<N, W, std::remove_const_t<Index>>,
                                     table, indices.data(), directory, indices.size(), out);
      },
      table, RowsView<computed_type<W> const>{out, static_cast<std::int64_t>(indices.size()), table.width});
}
template <class T, class Index>
void RowOps<CudaSpace>::scatter_rows(RowsView<T> table, std::span<Index> indices,
                                     Directory<std::remove_const_t<Index>> directory,
                                     std::type_identity_t<T> const* rows) const {
  device::scatter_rows(stream(), table, std::span<std::remove_const_t<Index> const>{indices}, directory, rows);
}

template <class T, class Index>
void RowOps<CudaSpace>::place_in_bags(std::span<std::uint32_t const> begins, device::GroupingView<Index> const& groups,
                                      std::uint32_t* of_index, std::uint32_t* kept, T* shares,
                                      std::span<std::uint32_t const> wrongs) const {
  std::uint64_t const bags = begins.size() - 1;
  device::detail::launch_over(stream(), bags, device::block_threads / device::warp_lanes,
                              device::detail::place_in_bags_kernel<T, Index>, begins.data(), bags, groups, of_index, kept,
                              shares, wrongs.data(), static_cast<std::uint32_t>(wrongs.size()));
}
template <class T>
void RowOps<CudaSpace>::sum_terms(RowTerms<T> const& terms, std::uint32_t const* order, std::uint32_t const* offsets,
                                  std::size_t first, std::size_t last, T* out, std::uint32_t const* inverse,
                                  std::size_t count) const {
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), device::sums_scratch_bytes<T>(count, terms.rows.width)};
  device::sum_terms(stream(), terms, order, offsets, first, last, out, inverse, count, scratch.data());
}

template <class T>
void RowOps<CudaSpace>::add_to(T* out, std::type_identity_t<T> const* in, std::int64_t n) const {
  if (n > 0) device::add_to(stream(), out, in, static_cast<std::uint64_t>(n));
}
template <class W>
void RowOps<CudaSpace>::widen_elements(W const* in, std::size_t n, computed_type<W>* out) const {
  device::convert(stream(), in, n, out);
}
template <class W>
void RowOps<CudaSpace>::narrow_elements(computed_type<W> const* in, std::size_t n, W* out) const {
  device::convert(stream(), in, n, out);
}
template <class T>
void RowOps<CudaSpace>::scale_down(T* values, std::int64_t n, std::type_identity_t<T> divisor) const {
  if (n > 0) device::scale_down(stream(), values, static_cast<std::uint64_t>(n), divisor);
}
template <class T>
void RowOps<CudaSpace>::scale_rows_down(T* values, std::int64_t width, std::span<std::uint32_t const> counts) const {
  RowsView<T> const rows{values, static_cast<std::int64_t>(counts.size()), width};
  device::detail::with_packs([&]<int N>() { device::detail::scale_rows_down<N>(stream(), rows, counts.data()); }, rows);
}
template <class T>
void RowOps<CudaSpace>::scale_counted_rows_down(T* values, std::int64_t rows, std::int64_t width) const {
  device::detail::scale_rows_down<1>(stream(), RowsView<T>{values, rows, width, width + 1}, nullptr);
}

template <class T>
void RowOps<CudaSpace>::first_non_finite(RowsView<T const> rows, NonFiniteElement* out) const {
  bool const packed = rows.contiguous();
  device::detail::with_packs(
      [&]<int N>() {
        unsigned const lanes = packed ? 0 : device::detail::lanes_for(rows.width / N);
        auto const count = static_cast<std::uint64_t>(rows.rows);
        std::uint64_t const work =
            packed ? device::detail::ceil_div(count * static_cast<std::uint64_t>(rows.width), device::block_threads * N)
                   : device::detail::ceil_div(count, device::detail::teams_for(lanes));
        unsigned const blocks = device::detail::grid_for(work, 1);
        DeviceBuffer<std::uint64_t> firsts{queue_.memory, stream(), blocks};
        device::launch(stream(), blocks, device::block_threads, 0, device::detail::first_non_finite_kernel<N, T>, rows, lanes,
                       firsts.data());
        device::launch(stream(), 1, device::block_threads, 0, device::detail::tell_first_kernel<T>, rows, firsts.data(), blocks,
                       out);
      },
      packed ? RowsView<T const>{rows.data, 1, 0} : rows);
}
template <class T>
void RowOps<CudaSpace>::sum_of_row_squares(RowsView<T const> rows, double* out) const {
  std::uint64_t const blocks = device::measured_blocks(rows.width), count = static_cast<std::uint64_t>(rows.rows);
  DeviceBuffer<double> numbers{queue_.memory, stream(), device::numbers_to_add(count, blocks)};
  device::sum_of_squares(stream(), rows, numbers.data());
  device::add_blocks<1>(stream(), numbers.data(), count, blocks, out);
}

template <class T, class Rule, class... S>
void RowOps<CudaSpace>::measure_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients,
                                         std::type_identity_t<T> scale, Rule const& rule, double* out, S*... slot) const {
  constexpr std::size_t count =
      decltype(std::declval<device::BareRule<Rule> const&>().measure(*parameters, T{}, *slot...))::count;
  std::uint64_t const blocks = device::measured_blocks(n);
  DeviceBuffer<double> numbers{queue_.memory, stream(), device::numbers_to_add(1, blocks) * count};
  device::measure_elements(stream(), static_cast<std::uint64_t>(n), parameters, gradients, device::detail::scaling<T>(scale),
                           rule, numbers.data(), slot...);
  device::add_blocks<count>(stream(), numbers.data(), 1, blocks, out);
}
template <std::size_t K, class Rule>
DeviceBuffer<RowOps<CudaSpace>::Finished<K, Rule>> RowOps<CudaSpace>::finish_rule(Rule const& rule, MeasuredParts<K> parts,
                                                                                  std::int64_t n) const {
  DeviceBuffer<Finished<K, Rule>> finished{queue_.memory, stream(), 1};
  device::launch(stream(), 1, 1, 0, device::detail::finish_rule_kernel<K, Rule, Finished<K, Rule>>, rule, parts, n,
                 finished.data());
  return finished;
}

template <class T, class Scale, class Rule, class... S>
void RowOps<CudaSpace>::apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, Scale scale,
                                       Rule const& rule, S*... slot) const {
  device::apply_elements(stream(), static_cast<std::uint64_t>(n), parameters, gradients,
                         device::detail::scaling<computed_type<T>>(scale), device::detail::as_argument(rule), slot...);
}
template <class T, class Index, class Rule, class ElementSlots, class RowSlots>
void RowOps<CudaSpace>::apply_rows(std::span<Index> indices, std::uint32_t const* count,
                                   Directory<std::remove_const_t<Index>> directory, RowsView<T> table,
                                   computed_type<T> const* gradients, computed_type<T> scale, Rule const& rule,
                                   ElementSlots const& element_slots, RowSlots const& row_slots) const {
  device::apply_rows(stream(), std::span<std::remove_const_t<Index> const>{indices}, directory, table, gradients,
                     device::detail::scaling<computed_type<T>>(scale), rule, element_slots, row_slots, count);
}
template <class T, class Index, class Rule, class ElementSlots, class RowSlots>
void RowOps<CudaSpace>::apply_runs(RowsView<computed_type<T> const> values, device::GroupingView<Index> const& groups,
                                   Directory<Index> directory, computed_type<T> divisor, std::uint32_t const* counts,
                                   RowsView<T> table, Rule const& rule, ElementSlots const& element_slots,
                                   RowSlots const& row_slots) const {
  using C = computed_type<T>;
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), device::sums_scratch_bytes<C>(groups.count, values.width)};
  device::update_runs(stream(), values, groups, directory, device::Scaling<C>{divisor, counts}, table, rule, element_slots,
                      row_slots, scratch.data());
}
template <class T, class Rule, class ElementSlots, class RowSlots>
void RowOps<CudaSpace>::apply_spaced_rows(RowsView<T> table, RowsView<computed_type<T> const> gradients, bool skips,
                                          computed_type<T> scale, Rule const& rule, ElementSlots const& element_slots,
                                          RowSlots const& row_slots) const {
  using C = computed_type<T>;
  if (table.rows == 0 || table.width == 0) return;
  std::uint32_t const* const in_order = nullptr;
  device::detail::with_packs(
      [&]<int N>() {
        device::detail::SpacedRows<C> const source{gradients.data, gradients.width, gradients.stride, skips};
        device::detail::update_rows<N>(stream(), source, in_order, {}, {static_cast<std::uint64_t>(table.rows)},
                                       device::detail::scaling<C>(scale), table, rule, element_slots, row_slots);
      },
      element_slots, table, gradients);
}
template <class T, class Index, class Rule, class ElementSlots, class RowSlots>
void RowOps<CudaSpace>::settle_rows(std::span<Index> indices, std::uint32_t const* count,
                                    Directory<std::remove_const_t<Index>> directory, device::RowAges<Rule> const& ages,
                                    RowsView<T> table, ElementSlots const& element_slots, RowSlots const& row_slots) const {
  device::settle_rows(stream(), indices.data(), {indices.size(), count}, directory, ages, table, element_slots, row_slots);
}
template <class T, class Rule, class ElementSlots, class RowSlots>
void RowOps<CudaSpace>::settle_all_rows(device::RowAges<Rule> const& ages, RowsView<T> table, ElementSlots const& element_slots,
                                        RowSlots const& row_slots) const {
  std::uint32_t const* const in_order = nullptr;
  device::settle_rows(stream(), in_order, {static_cast<std::uint64_t>(table.rows)}, {}, ages, table, element_slots, row_slots);
}

}  // namespace parallax

PARALLAX_STRICT_ARITHMETIC_END
