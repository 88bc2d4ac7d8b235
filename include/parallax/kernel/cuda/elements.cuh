// Arithmetic on contiguous elements on a CUDA device. Sums over ranks, means and norms are made by it, through
// RowOps<CudaSpace>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "parallax/kernel/cuda/launch.cuh"
#include "parallax/kernel/cuda/packs.cuh"
#include "parallax/kernel/cuda/strict.cuh"
#include "parallax/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::device {
namespace detail {

// Grid: threads stride over packs of N elements; the last n % N elements are taken one by one. Memory: both are read once,
// `out` is written once.
template <int N, class T>
__global__ void __launch_bounds__(block_threads) add_to_kernel(T* out, T const* in, std::uint64_t n) {
  std::uint64_t const whole = n / N;
  for (std::uint64_t i = thread_number(); i < whole; i += thread_count()) {
    Pack<T, N> sum = load<N>(out + i * N);
    Pack<T, N> const more = load<N>(in + i * N);
    for (int k = 0; k < N; ++k) sum.at[k] = narrowed<T>(add(widened(sum.at[k]), widened(more.at[k])));
    store<N>(out + i * N, sum);
  }
  for (std::uint64_t i = whole * N + thread_number(); i < n; i += thread_count())
    out[i] = narrowed<T>(add(widened(out[i]), widened(in[i])));
}

// Grid and memory: as above.
template <int N, class T>
__global__ void __launch_bounds__(block_threads) scale_down_kernel(T* values, std::uint64_t n, Computed<T> divisor) {
  std::uint64_t const whole = n / N;
  for (std::uint64_t i = thread_number(); i < whole; i += thread_count()) {
    Pack<T, N> pack = load<N>(values + i * N);
    for (int k = 0; k < N; ++k) pack.at[k] = narrowed<T>(divide(widened(pack.at[k]), divisor));
    store<N>(values + i * N, pack);
  }
  for (std::uint64_t i = whole * N + thread_number(); i < n; i += thread_count())
    values[i] = narrowed<T>(divide(widened(values[i]), divisor));
}

// Partial sums of a block of measured_block elements, as on the host.
inline constexpr unsigned partial_sums = 8;

// What all of a block's threads have put into `held`, a number each for every sum, is added up: eight threads a sum add each
// every eighth of the first `count`, onto their part. The sums' threads are of one warp.
template <unsigned sums, unsigned threads>
__device__ void add_eighths(double const (&held)[sums][threads], unsigned count, double& part) {
  static_assert(sums * partial_sums <= 32);
  __syncthreads();
  if (threadIdx.x < sums * partial_sums)
    for (unsigned k = threadIdx.x % partial_sums; k < count; k += partial_sums)
      part = add(part, held[threadIdx.x / partial_sums][k]);
  __syncthreads();
}
// out[s]: the parts of sum s, added: of pairs, of pairs of pairs, of all.
template <unsigned sums>
__device__ void put_sums_of_eighths(double part, double* out) {
  constexpr unsigned threads = sums * partial_sums;
  if (threadIdx.x >= threads) return;
  for (int with = 1; with < static_cast<int>(partial_sums); with *= 2)
    part = add(part, __shfl_xor_sync(0xffffffffu >> (32 - threads), part, with));
  if (threadIdx.x % partial_sums == 0) out[threadIdx.x / partial_sums] = part;
}

// Grid: blocks stride over the measured blocks of all rows. Memory: everything is read once.
template <class T, unsigned threads>
__global__ void __launch_bounds__(threads)
    sum_of_squares_kernel(RowsView<T const> rows, std::uint64_t blocks_of_row, double* out) {
  __shared__ double squares[1][threads];
  std::uint64_t const all = static_cast<std::uint64_t>(rows.rows) * blocks_of_row;
  for (std::uint64_t block = blockIdx.x; block < all; block += gridDim.x) {
    std::int64_t const first = static_cast<std::int64_t>(block % blocks_of_row) * measured_block;
    T const* const values = rows.row(static_cast<std::int64_t>(block / blocks_of_row)) + first;
    auto const n = static_cast<unsigned>(rows.width - first < measured_block ? rows.width - first : measured_block);
    double part = 0;
    for (unsigned at = 0; at < n; at += threads) {
      if (at + threadIdx.x < n) {
        double const value = static_cast<double>(widened(values[at + threadIdx.x]));
        squares[0][threadIdx.x] = multiply(value, value);
      }
      add_eighths(squares, n - at < threads ? n - at : threads, part);
    }
    put_sums_of_eighths<1>(part, out + block);
  }
}

// Grid: one block. Memory: everything is read once. What is read ahead lies in shared memory, where a thread a sum adds it up.
template <unsigned sums>
__global__ void __launch_bounds__(block_threads)
    add_blocks_kernel(double const* of_blocks, std::uint64_t blocks, std::uint64_t of_row, double* out) {
  constexpr unsigned tile = 8 * block_threads / sums * sums;
  __shared__ double held[tile];
  double all = 0, row = 0;
  std::uint64_t left = of_row;
  for (std::uint64_t first = 0; first < blocks * sums; first += tile) {
    std::uint64_t const rest = blocks * sums - first;
    unsigned const n = rest < tile ? static_cast<unsigned>(rest) : tile;
    for (unsigned i = threadIdx.x; i < n; i += block_threads) held[i] = of_blocks[first + i];
    __syncthreads();
    if (threadIdx.x < sums)
      for (unsigned i = threadIdx.x; i < n; i += sums) {
        row = add(row, held[i]);
        if (--left > 0) continue;
        all = add(all, row);
        row = 0;
        left = of_row;
      }
    __syncthreads();
  }
  if (threadIdx.x < sums) out[threadIdx.x] = all;
}

}  // namespace detail

// out[i] += in[i]. 16-bit elements are added in float and rounded once.
template <class T>
void add_to(cudaStream_t stream, T* out, std::type_identity_t<T> const* in, std::uint64_t n) {
  detail::with_packs(
      [&]<int N>(std::integral_constant<int, N>) {
        launch(stream, detail::grid_for(detail::ceil_div(n, block_threads * N)), block_threads, 0, detail::add_to_kernel<N, T>,
               out, in, n);
      },
      RowsView<T>{out, 1, 0}, RowsView<T const>{in, 1, 0});
}

// values[i] /= divisor: a true division, not a multiplication by the reciprocal.
template <class T>
void scale_down(cudaStream_t stream, T* values, std::uint64_t n, Computed<T> divisor) {
  detail::with_packs(
      [&]<int N>(std::integral_constant<int, N>) {
        launch(stream, detail::grid_for(detail::ceil_div(n, block_threads * N)), block_threads, 0,
               detail::scale_down_kernel<N, T>, values, n, divisor);
      },
      RowsView<T>{values, 1, 0});
}

// How many blocks a sum over n elements is cut into.
inline std::uint64_t measured_blocks(std::int64_t n) {
  return detail::ceil_div(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(measured_block));
}

// out[i * measured_blocks(width) + b], in device memory, = the sum of the squares of block b of row i, in double. Added in
// order they are RowOps<HostSpace>::sum_of_squares.
template <class T>
void sum_of_squares(cudaStream_t stream, RowsView<T const> rows, double* out) {
  std::uint64_t const blocks = measured_blocks(rows.width), all = blocks * static_cast<std::uint64_t>(rows.rows);
  if (all == 0) return;
  launch(stream, detail::grid_for(all), block_threads, 0, detail::sum_of_squares_kernel<T, block_threads>, rows, blocks, out);
}

// out[k] = sum k of all blocks, whose number k is of_blocks[b * sums + k]: the blocks of each row are added in order, and then
// the rows. Of no blocks it is zero.
template <unsigned sums>
void add_blocks(cudaStream_t stream, double const* of_blocks, std::uint64_t blocks, std::uint64_t of_row, double* out) {
  launch(stream, 1, block_threads, 0, detail::add_blocks_kernel<sums>, of_blocks, blocks, of_row, out);
}

}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
