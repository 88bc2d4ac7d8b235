// Arithmetic on contiguous elements on a CUDA device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "parallax/kernel/cuda/launch.cuh"
#include "parallax/kernel/cuda/packs.cuh"
#include "parallax/kernel/cuda/strict.cuh"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::cuda {
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

inline constexpr unsigned partial_sums = 8;

// Grid: one block. All threads square a tile into shared memory, eight of them add it up, each every eighth element; then lane
// k has partial sum k. Memory: everything is read once.
template <class T, unsigned threads>
__global__ void __launch_bounds__(threads) sum_of_squares_kernel(T const* values, std::uint64_t n, double* out) {
  __shared__ double squares[4 * threads];
  double part = 0;
  for (std::uint64_t first = 0; first < n; first += 4 * threads) {
    for (unsigned k = threadIdx.x; k < 4 * threads; k += threads) {
      double const value = first + k < n ? static_cast<double>(widened(values[first + k])) : 0.0;
      squares[k] = multiply(value, value);
    }
    __syncthreads();
    std::uint64_t const count = n - first < 4 * threads ? n - first : 4 * threads;
    if (threadIdx.x < partial_sums)
      for (std::uint64_t k = threadIdx.x; k < count; k += partial_sums) part = add(part, squares[k]);
    __syncthreads();
  }
  if (threadIdx.x >= partial_sums) return;
  for (int with = 1; with < static_cast<int>(partial_sums); with *= 2) part = add(part, __shfl_xor_sync(0xffu, part, with));
  if (threadIdx.x == 0) *out = part;
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

// *out, in device memory, = the sum of the squares in double, in the order of RowOps<HostSpace>::sum_of_squares: eight sums
// side by side, which no device can hurry.
template <class T>
void sum_of_squares(cudaStream_t stream, T const* values, std::uint64_t n, double* out) {
  launch(stream, 1, block_threads, 0, detail::sum_of_squares_kernel<T, block_threads>, values, n, out);
}

}  // namespace parallax::cuda

PARALLAX_STRICT_ARITHMETIC_END
