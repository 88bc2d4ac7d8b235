// Sums of rows by reference, each with a factor, on a CUDA device: bags are pooled by them, and their gradients summed by
// row. RowOps<CudaSpace> calls it for pulls of bags and their updates.
#pragma once

#include <cstdint>
#include <span>

#include "parallax/kernel/cuda/launch.cuh"
#include "parallax/kernel/cuda/packs.cuh"
#include "parallax/kernel/cuda/strict.cuh"
#include "parallax/kernel/host/bags.hpp"
#include "parallax/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::cuda {
namespace detail {

// Run k is of the terms order[offsets[k]] … order[offsets[k + 1] - 1]; without an order of terms offsets[k] …, without offsets
// of one term.
struct TermRuns {
  std::uint32_t const *order, *offsets;

  // Where run k begins among the terms; and the number of the term at place i of their order.
  __device__ std::uint64_t begin(std::uint64_t k) const { return offsets ? offsets[k] : k; }
  __device__ std::uint64_t term(std::uint64_t i) const { return order ? order[i] : i; }
};

// N columns of term i, times its factor; the product is rounded by itself.
template <int N, class T>
__device__ Pack<T, N> load_term(RowTerms<T> const& terms, std::uint64_t i, std::int64_t column) {
  Pack<T, N> row = load<N>(terms.rows.row(terms.row_of[i]) + column);
  if (terms.factors)
    for (int k = 0; k < N; ++k) row.at[k] = multiply(terms.factors[i], row.at[k]);
  return row;
}
// Adds N columns to a sum, each rounded by itself.
template <int N, class T>
__device__ void add_pack(Pack<T, N>& sum, Pack<T, N> const& addend) {
  for (int k = 0; k < N; ++k) sum.at[k] = add(sum.at[k], addend.at[k]);
}

// Grid: a team of `lanes` threads a run, all teams stride over the runs. Memory: the row of every term is read once, every sum
// is written once.
template <int N, class T>
__global__ void __launch_bounds__(block_threads, resident_blocks)
    sum_terms_kernel(RowTerms<T> terms, TermRuns runs, std::uint64_t first, std::uint64_t last, T* out, unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  std::int64_t const width = terms.rows.width;
  for (std::uint64_t k = first + team.number; k < last; k += team.count) {
    std::uint64_t const begin = runs.begin(k), end = runs.begin(k + 1);
    for (std::int64_t column = std::int64_t{team.lane} * N; column < width; column += std::int64_t{lanes} * N) {
      Pack<T, N> sum{};
      for (std::uint64_t chunk = begin; chunk < end; chunk += sum_chunk) {
        std::uint64_t const chunk_end = chunk + sum_chunk < end ? chunk + sum_chunk : end;
        Pack<T, N> part = load_term<N>(terms, runs.term(chunk), column);
        for (std::uint64_t i = chunk + 1; i < chunk_end; ++i) add_pack(part, load_term<N>(terms, runs.term(i), column));
        if (chunk == begin) sum = part;
        else add_pack(sum, part);
      }
      store<N>(out + (k - first) * static_cast<std::uint64_t>(width) + column, sum);
    }
  }
}

}  // namespace detail

// Row k - first of out, packed, = the sum of the terms of run k, for k in [first, last): of order[offsets[k]] …
// order[offsets[k + 1] - 1]; zeros if there are none. Without an order the terms are in it; without offsets each is a run. All
// that `terms` names lies on the device. The bits are those of parallax::sum_terms. A run is summed by one team, so that a long
// one takes its time.
template <class T>
void sum_terms(cudaStream_t stream, RowTerms<T> const& terms, std::uint32_t const* order, std::uint32_t const* offsets,
               std::uint64_t first, std::uint64_t last, T* out) {
  if (first == last || terms.rows.width == 0) return;
  RowsView<T> const sums{out, static_cast<std::int64_t>(last - first), terms.rows.width};
  detail::with_packs(
      [&]<int N>(std::integral_constant<int, N>) {
        unsigned const lanes = detail::lanes_for(terms.rows.width / N);
        launch(stream, detail::grid_for(detail::ceil_div(last - first, detail::teams_for(lanes))), block_threads, 0,
               detail::sum_terms_kernel<N, T>, terms, detail::TermRuns{order, offsets}, first, last, out, lanes);
      },
      terms.rows, sums);
}

}  // namespace parallax::cuda

PARALLAX_STRICT_ARITHMETIC_END
