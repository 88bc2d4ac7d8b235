// RowOps<CudaSpace> for files that nvcc compiles: what row_ops.hpp declares, over the launchers beside it. kernel/cuda.cuh
// includes it, and so does what instantiates it for other files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include "parallax/kernel/cuda/bags.cuh"
#include "parallax/kernel/cuda/copies.cuh"
#include "parallax/kernel/cuda/elements.cuh"
#include "parallax/kernel/cuda/placing.cuh"
#include "parallax/kernel/cuda/row_ops.hpp"
#include "parallax/kernel/cuda/rows.cuh"
#include "parallax/kernel/cuda/sort.cuh"
#include "parallax/kernel/cuda/sums.cuh"
#include "parallax/kernel/cuda/updates.cuh"
#include "parallax/kernel/host.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax {
namespace cuda::detail {

// Grid: threads stride over the elements. Memory: written once.
template <class T>
__global__ void __launch_bounds__(block_threads) fill_kernel(T* values, std::uint64_t n, T value) {
  for (std::uint64_t i = thread_number(); i < n; i += thread_count()) values[i] = value;
}

// Grid: threads stride over the elements. Memory: read and written once; a count is read for each.
template <class T>
__global__ void __launch_bounds__(block_threads)
    scale_rows_down_kernel(T* values, std::uint64_t n, std::uint64_t width, std::uint32_t const* counts) {
  for (std::uint64_t i = thread_number(); i < n; i += thread_count())
    values[i] = divide(values[i], static_cast<T>(counts[i / width]));
}

// The number behind the `width` elements of a row divides them, if it is more than one.
// Grid: threads stride over the elements. Memory: read and written once; a row's number is read for each.
template <class T>
__global__ void __launch_bounds__(block_threads)
    scale_counted_rows_down_kernel(T* values, std::uint64_t rows, std::uint64_t width) {
  for (std::uint64_t i = thread_number(); i < rows * width; i += thread_count()) {
    T* const row = values + i / width * (width + 1);
    if (row[width] > T{1}) row[i % width] = divide(row[i % width], row[width]);
  }
}

// Grid: threads stride over the elements; each block writes the first one that its threads have found. Memory: read once.
template <class T>
__global__ void __launch_bounds__(block_threads) first_non_finite_kernel(RowsView<T const> rows, NonFiniteElement* first) {
  __shared__ std::uint64_t found[block_threads];
  auto const width = static_cast<std::uint64_t>(rows.width), n = static_cast<std::uint64_t>(rows.rows) * width;
  auto const value = [&](std::uint64_t i) {
    return rows.contiguous() ? rows.data[i] : rows.row(static_cast<std::int64_t>(i / width))[i % width];
  };
  std::uint64_t mine = n;
  for (std::uint64_t i = thread_number(); i < n && mine == n; i += thread_count())
    if (parallax::detail::is_non_finite(value(i))) mine = i;
  found[threadIdx.x] = mine;
  for (unsigned half = block_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half && found[threadIdx.x + half] < found[threadIdx.x]) found[threadIdx.x] = found[threadIdx.x + half];
  }
  if (threadIdx.x > 0) return;
  first[blockIdx.x] = {rows.rows, 0, 0};
  if (found[0] < n)
    first[blockIdx.x] = {static_cast<std::int64_t>(found[0] / width), static_cast<std::int64_t>(found[0] % width),
                         static_cast<double>(value(found[0]))};
}

// Grid: one thread.
template <std::size_t K, class Rule, class Finished>
__global__ void finish_rule_kernel(Rule rule, MeasuredParts<K> parts, std::int64_t n, Finished* out) {
  *out = rule.finish(parts.total(), n);
}

// A rule as kernels are given it: an optimizer's by value; one that finish_rule has made, by its address on the device.
template <class Rule>
Rule const& as_argument(Rule const& rule) {
  return rule;
}
template <class Rule>
RuleThere<Rule> as_argument(DeviceBuffer<Rule> const& made) {
  return {made.data()};
}

// What a launcher is told of a scale, for each of the three kinds that apply_elements takes.
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

}  // namespace cuda::detail

template <class T>
void RowOps<CudaSpace>::fill(T* values, std::size_t n, T value) const {
  cuda::launch(stream(), cuda::detail::grid_for(cuda::detail::ceil_div(n, cuda::block_threads)), cuda::block_threads, 0,
               cuda::detail::fill_kernel<T>, values, n, value);
}
template <class Job>
void RowOps<CudaSpace>::copy_all(Job const* jobs, std::uint32_t count, std::uint64_t most) const {
  cuda::copy_all(stream(), jobs, count, most);
}

template <class Id, class Layout, class Index>
void RowOps<CudaSpace>::place_ids(Id const* ids, std::size_t n, Layout const& layout, Index const* bases, bool hashes,
                                  Index* keys) const {
  cuda::place_ids(stream(), ids, n, layout, bases, hashes, keys);
}
template <class Index>
void RowOps<CudaSpace>::group_keys(Index const* keys, std::int64_t bound, cuda::GroupingView<Index> const& out) const {
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), cuda::group_keys_scratch_bytes(out.count, bound)};
  cuda::group_keys(stream(), keys, bound, out, scratch.data());
}

template <class T, class Index>
void RowOps<CudaSpace>::coalesce(RowsView<std::type_identity_t<T> const> values, cuda::ShownGroups<Index> const& shown,
                                 std::size_t first, std::size_t last, T* out) const {
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), cuda::sums_scratch_bytes<T>(shown.groups.count, values.width)};
  cuda::coalesce(stream(), values, shown.groups, out, scratch.data(), static_cast<std::uint32_t>(first),
                 static_cast<std::uint32_t>(last));
}
template <class T, class I>
void RowOps<CudaSpace>::gather_rows(RowsView<std::type_identity_t<T> const> table, std::span<I> indices,
                                    Directory<std::remove_const_t<I>> directory, T* out) const {
  cuda::gather_rows(stream(), table, std::span<std::remove_const_t<I> const>{indices}, directory, out);
}
template <class T, class I>
void RowOps<CudaSpace>::scatter_rows(RowsView<T> table, std::span<I> indices, Directory<std::remove_const_t<I>> directory,
                                     std::type_identity_t<T> const* rows) const {
  cuda::scatter_rows(stream(), table, std::span<std::remove_const_t<I> const>{indices}, directory, rows);
}

template <class T>
void RowOps<CudaSpace>::sum_terms(RowTerms<T> const& terms, std::uint32_t const* order, std::uint32_t const* offsets,
                                  std::size_t first, std::size_t last, T* out) const {
  cuda::sum_terms(stream(), terms, order, offsets, first, last, out);
}

template <class T>
void RowOps<CudaSpace>::add_to(T* out, std::type_identity_t<T> const* in, std::int64_t n) const {
  if (n > 0) cuda::add_to(stream(), out, in, static_cast<std::uint64_t>(n));
}
template <class T>
void RowOps<CudaSpace>::scale_down(T* values, std::int64_t n, std::type_identity_t<T> divisor) const {
  if (n > 0) cuda::scale_down(stream(), values, static_cast<std::uint64_t>(n), divisor);
}
template <class T>
void RowOps<CudaSpace>::scale_rows_down(T* values, std::int64_t width, std::span<std::uint32_t const> counts) const {
  std::uint64_t const n = counts.size() * static_cast<std::uint64_t>(width);
  cuda::launch(stream(), cuda::detail::grid_for(cuda::detail::ceil_div(n, cuda::block_threads)), cuda::block_threads, 0,
               cuda::detail::scale_rows_down_kernel<T>, values, n, static_cast<std::uint64_t>(width), counts.data());
}
template <class T>
void RowOps<CudaSpace>::scale_counted_rows_down(T* values, std::int64_t rows, std::int64_t width) const {
  auto const count = static_cast<std::uint64_t>(rows), n = static_cast<std::uint64_t>(width);
  cuda::launch(stream(), cuda::detail::grid_for(cuda::detail::ceil_div(count * n, cuda::block_threads)), cuda::block_threads, 0,
               cuda::detail::scale_counted_rows_down_kernel<T>, values, count, n);
}

template <class T>
void RowOps<CudaSpace>::first_non_finite(RowsView<T const> rows, NonFiniteElement* out) const {
  cuda::launch(stream(), first_candidates, cuda::block_threads, 0, cuda::detail::first_non_finite_kernel<T>, rows, out);
}
template <class T>
void RowOps<CudaSpace>::sum_of_row_squares(RowsView<T const> rows, double* out) const {
  std::uint64_t const blocks = cuda::measured_blocks(rows.width);
  DeviceBuffer<double> of_blocks{queue_.memory, stream(), static_cast<std::size_t>(rows.rows) * blocks};
  cuda::sum_of_squares(stream(), rows, of_blocks.data());
  cuda::add_blocks<1>(stream(), of_blocks.data(), of_blocks.size(), blocks, out);
}

template <class T, class Rule, class... S>
void RowOps<CudaSpace>::measure_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients,
                                         std::type_identity_t<T> scale, Rule const& rule, double* out, S*... slots) const {
  constexpr std::size_t count = decltype(rule.measure(*parameters, T{}, *slots...))::count;
  std::uint64_t const blocks = cuda::measured_blocks(n);
  DeviceBuffer<double> of_blocks{queue_.memory, stream(), blocks * count};
  cuda::measure_elements(stream(), static_cast<std::uint64_t>(n), parameters, gradients, cuda::detail::scaling<T>(scale), rule,
                         of_blocks.data(), slots...);
  cuda::add_blocks<count>(stream(), of_blocks.data(), blocks, blocks, out);
}
template <std::size_t K, class Rule>
DeviceBuffer<RowOps<CudaSpace>::Finished<K, Rule>> RowOps<CudaSpace>::finish_rule(Rule const& rule, MeasuredParts<K> parts,
                                                                                 std::int64_t n) const {
  DeviceBuffer<Finished<K, Rule>> finished{queue_.memory, stream(), 1};
  cuda::launch(stream(), 1, 1, 0, cuda::detail::finish_rule_kernel<K, Rule, Finished<K, Rule>>, rule, parts, n,
               finished.data());
  return finished;
}

template <class T, class Scale, class Rule, class... S>
void RowOps<CudaSpace>::apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, Scale scale,
                                       Rule const& rule, S*... slots) const {
  cuda::apply_elements(stream(), static_cast<std::uint64_t>(n), parameters, gradients, cuda::detail::scaling<T>(scale),
                       cuda::detail::as_argument(rule), slots...);
}
template <class T, class I, class Rule, class... S, class... R>
void RowOps<CudaSpace>::apply_rows(std::span<I> indices, Directory<std::remove_const_t<I>> directory, RowsView<T> table,
                                   std::type_identity_t<T> const* gradients, std::type_identity_t<T> scale, Rule const& rule,
                                   cuda::Slots<S...> const& element_slots, cuda::Slots<R...> const& row_slots) const {
  cuda::apply_rows(stream(), std::span<std::remove_const_t<I> const>{indices}, directory, table, gradients,
                   cuda::detail::scaling<T>(scale), rule, element_slots, row_slots);
}
template <class T, class Index, class Rule, class... S, class... R>
void RowOps<CudaSpace>::apply_runs(RowsView<std::type_identity_t<T> const> values, cuda::ShownGroups<Index> const& shown,
                                   Directory<Index> directory, std::type_identity_t<T> divisor,
                                   std::uint32_t const* counts, RowsView<T> table, Rule const& rule,
                                   cuda::Slots<S...> const& element_slots, cuda::Slots<R...> const& row_slots) const {
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), cuda::sums_scratch_bytes<T>(shown.groups.count, values.width)};
  cuda::update_runs(stream(), values, shown.groups, directory, cuda::Scaling<T>{divisor, counts}, table, rule, element_slots,
                    row_slots, scratch.data());
}
template <class T, class Rule, class... S, class... R>
void RowOps<CudaSpace>::apply_spaced_rows(RowsView<T> table, RowsView<std::type_identity_t<T> const> gradients, bool skips,
                                          std::type_identity_t<T> scale, Rule const& rule,
                                          cuda::Slots<S...> const& element_slots, cuda::Slots<R...> const& row_slots) const {
  cuda::apply_spaced_rows(stream(), table, gradients, skips, cuda::detail::scaling<T>(scale), rule, element_slots, row_slots);
}

}  // namespace parallax

PARALLAX_STRICT_ARITHMETIC_END
