// RowOps<CudaSpace> for files that nvcc compiles: what row_ops.hpp declares, over the launchers beside it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

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

// Grid: threads stride over the elements; each writes the first place that it has found, or n. Memory: read once.
template <class T>
__global__ void __launch_bounds__(block_threads)
    first_non_finite_kernel(T const* values, std::uint64_t n, std::uint64_t* first) {
  std::uint64_t found = n;
  for (std::uint64_t i = thread_number(); i < n && found == n; i += thread_count())
    if (parallax::detail::is_non_finite(values[i])) found = i;
  first[thread_number()] = found;
}

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
void RowOps<CudaSpace>::group_keys(Index const* keys, std::int64_t bound, cuda::Groups<Index> const& out) const {
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
                                    std::remove_const_t<I> base, T* out) const {
  cuda::gather_rows(stream(), table, std::span<std::remove_const_t<I> const>{indices}, base, out);
}
template <class T, class I>
void RowOps<CudaSpace>::scatter_rows(RowsView<T> table, std::span<I> indices, std::remove_const_t<I> base,
                                     std::type_identity_t<T> const* rows) const {
  cuda::scatter_rows(stream(), table, std::span<std::remove_const_t<I> const>{indices}, base, rows);
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
std::int64_t RowOps<CudaSpace>::first_non_finite(T const* values, std::int64_t n) const {
  auto const count = static_cast<std::uint64_t>(n);
  unsigned const blocks = std::min(cuda::detail::grid_for(cuda::detail::ceil_div(count, cuda::block_threads)), 64u);
  std::vector<std::uint64_t> found(std::size_t{blocks} * cuda::block_threads, count);
  DeviceBuffer<std::uint64_t> there{queue_.memory, stream(), found.size()};
  cuda::launch(stream(), blocks, cuda::block_threads, 0, cuda::detail::first_non_finite_kernel<T>, values, count, there.data());
  to_host(found.data(), there.data(), found.size());
  std::uint64_t first = count;
  for (std::uint64_t const place : found) first = std::min(first, place);
  return static_cast<std::int64_t>(first);
}
template <class T>
double RowOps<CudaSpace>::sum_of_row_squares(RowsView<T const> rows) const {
  auto const blocks = static_cast<std::size_t>(cuda::measured_blocks(rows.width));
  DeviceBuffer<double> there{queue_.memory, stream(), static_cast<std::size_t>(rows.rows) * blocks};
  cuda::sum_of_squares(stream(), rows, there.data());
  std::vector<double> sums(there.size());
  to_host(sums.data(), there.data(), sums.size());
  double all = 0;
  for (std::size_t row = 0; row < sums.size(); row += blocks) {
    double of_row = 0;
    for (std::size_t block = 0; block < blocks; ++block) of_row += sums[row + block];
    all += of_row;
  }
  return all;
}

template <class T, class Rule, class... S>
auto RowOps<CudaSpace>::measure_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients,
                                         std::type_identity_t<T> scale, Rule const& rule, S*... slots) const
    -> MeasuresOf<T, Rule, S...> {
  MeasuresOf<T, Rule, S...> sums{};
  DeviceBuffer<double> there{queue_.memory, stream(), static_cast<std::size_t>(cuda::measured_blocks(n)) * sums.count};
  cuda::measure_elements(stream(), static_cast<std::uint64_t>(n), parameters, gradients, cuda::detail::scaling<T>(scale), rule,
                         there.data(), slots...);
  std::vector<double> of_blocks(there.size());
  to_host(of_blocks.data(), there.data(), of_blocks.size());
  for (std::size_t i = 0; i < of_blocks.size(); ++i) sums[i % sums.count] += of_blocks[i];
  return sums;
}

template <class T, class Scale, class Rule, class... S>
void RowOps<CudaSpace>::apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, Scale scale,
                                       Rule const& rule, S*... slots) const {
  cuda::apply_elements(stream(), static_cast<std::uint64_t>(n), parameters, gradients, cuda::detail::scaling<T>(scale), rule,
                       slots...);
}
template <class T, class I, class Rule, class... S, class... R>
void RowOps<CudaSpace>::apply_rows(std::span<I> indices, std::remove_const_t<I> base, RowsView<T> table,
                                   std::type_identity_t<T> const* gradients, std::type_identity_t<T> scale, Rule const& rule,
                                   cuda::Slots<S...> const& element_slots, cuda::Slots<R...> const& row_slots) const {
  cuda::apply_rows(stream(), std::span<std::remove_const_t<I> const>{indices}, base, table, gradients,
                   cuda::detail::scaling<T>(scale), rule, element_slots, row_slots);
}
template <class T, class Index, class Rule, class... S, class... R>
void RowOps<CudaSpace>::apply_runs(RowsView<std::type_identity_t<T> const> values, cuda::ShownGroups<Index> const& shown,
                                   std::type_identity_t<Index> base, std::type_identity_t<T> divisor,
                                   std::uint32_t const* counts, RowsView<T> table, Rule const& rule,
                                   cuda::Slots<S...> const& element_slots, cuda::Slots<R...> const& row_slots) const {
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), cuda::sums_scratch_bytes<T>(shown.groups.count, values.width)};
  cuda::update_runs(stream(), values, shown.groups, base, cuda::Scaling<T>{divisor, counts}, table, rule, element_slots,
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
