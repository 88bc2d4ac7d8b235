// Arithmetic on contiguous elements on a CUDA device. RowOps<CudaSpace> makes sums over ranks, means and norms by it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/strict.cuh"
#include "parallax/detail/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device {
namespace detail {

// Grid: threads stride over packs of N elements; the last n % N elements are taken one by one. Memory: both are read once,
// `out` is written once.
template <int N, class T>
__global__ void __launch_bounds__(block_threads) add_to_kernel(T* out, T const* in, std::uint64_t n) {
  for_each_pack<N>(n, [&]<int M>(std::uint64_t first) {
    Pack<T, M> sum = load<M>(out + first);
    add_pack(sum, load<M>(in + first));
    store<M>(out + first, sum);
  });
}

// Grid: as of add_to_kernel. Memory: `in` is read once, `out` is written once.
template <int N, class From, class To>
__global__ void __launch_bounds__(block_threads) convert_kernel(From const* in, std::uint64_t n, To* out) {
  std::uint64_t const whole = n / N;
  for (std::uint64_t i = thread_number(); i < whole; i += thread_count()) {
    Pack<From, N> const pack = load<N>(in + i * N);
    Pack<To, N> converted;
    for (int k = 0; k < N; ++k) converted.at[k] = narrowed<To>(widened(pack.at[k]));
    store<N>(out + i * N, converted);
  }
  for (std::uint64_t i = whole * N + thread_number(); i < n; i += thread_count()) out[i] = narrowed<To>(widened(in[i]));
}

// Grid: as of add_to_kernel. Memory: all is read once and written once.
template <int N, class T>
__global__ void __launch_bounds__(block_threads) scale_down_kernel(T* values, std::uint64_t n, Computed<T> divisor) {
  for_each_pack<N>(n, [&]<int M>(std::uint64_t first) {
    Pack<T, M> pack = load<M>(values + first);
    for (int k = 0; k < M; ++k) pack.at[k] = narrowed<T>(divide(widened(pack.at[k]), divisor));
    store<M>(values + first, pack);
  });
}

// Partial sums of a block of measured_block elements, as on the host.
inline constexpr unsigned partial_sums = 8;

// Adds up the block's threads' numbers in `held`, one each for every sum: eight threads a sum add each every eighth of the
// first `count`, onto their part. The sums' threads are of one warp.
template <unsigned sums, unsigned threads>
__device__ void add_eighths(double const (&held)[sums][threads], unsigned count, double& part) {
  static_assert(sums * partial_sums <= 32);
  __syncthreads();
  if (threadIdx.x < sums * partial_sums)
    for (unsigned k = threadIdx.x % partial_sums; k < count; k += partial_sums)
      part = add(part, held[threadIdx.x / partial_sums][k]);
  __syncthreads();
}
// Sets out[s] = the parts of sum s, added: of pairs, of pairs of pairs, of all.
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

// The numbers still to be added: `rows` rows, packed, of `of_row` each. First a row's numbers are added, and then the rows.
// add_blocks plans one launch of add_groups_kernel after another by it.
struct NumbersOfRows {
  static constexpr std::uint64_t group = sum_group;  // numbers added by a thread; a block adds as many groups

  std::uint64_t rows, of_row;

  // Returns the numbers, with rows of one number, or of none, for one row.
  static NumbersOfRows of(std::uint64_t rows, std::uint64_t of_row) {
    if (rows > 1 && of_row > 1) return {rows, of_row};
    return {1, rows * of_row};
  }
  std::uint64_t count() const { return rows * of_row; }
  PARALLAX_HOST_DEVICE std::uint64_t groups_of_row() const { return of_row > group ? ceil_div(of_row, group) : 1; }
  PARALLAX_HOST_DEVICE std::uint64_t groups() const { return rows * groups_of_row(); }
  // Returns the beginning of a group among the numbers, the end of the group before.
  PARALLAX_HOST_DEVICE std::uint64_t begin(std::uint64_t number) const {
    return number / groups_of_row() * of_row + number % groups_of_row() * group;
  }
  // Returns the blocks' worth of work.
  PARALLAX_HOST_DEVICE std::uint64_t tiles() const { return ceil_div(groups(), group); }
  // Returns a launch's results: a number a group; of one row a number a block, whose groups are a group themselves.
  NumbersOfRows added() const { return of(rows, rows == 1 ? tiles() : groups_of_row()); }
  // Returns true if a launch leaves one number.
  bool last() const { return rows == 1 && tiles() == 1; }
};

// Writes a launch's results. The numbers lie `sums` side by side, and so do the results. Grid: blocks stride over tiles of 64
// groups of one of the sums. Memory: everything is read once. A tile lies in shared memory, each group one place further than
// it is long, so threads that add a group each read from different banks.
template <unsigned sums>
__global__ void __launch_bounds__(block_threads) add_groups_kernel(double const* numbers, NumbersOfRows of, double* out) {
  constexpr auto group = static_cast<unsigned>(NumbersOfRows::group);
  __shared__ double held[group * (group + 1)], of_groups[group];
  for (std::uint64_t tile = blockIdx.x; tile < of.tiles() * sums; tile += gridDim.x) {
    std::uint64_t const first = tile / sums * group, sum_number = tile % sums, begin = of.begin(first);
    auto const groups = static_cast<unsigned>(of.groups() - first < group ? of.groups() - first : group);
    auto const count = static_cast<unsigned>(of.begin(first + groups) - begin);
    for (unsigned i = threadIdx.x; i < count; i += block_threads)
      held[i + i / group] = numbers[(begin + i) * sums + sum_number];
    __syncthreads();
    if (threadIdx.x < groups) {
      auto const end = static_cast<unsigned>(of.begin(first + threadIdx.x + 1) - begin);
      double sum = 0;
      for (auto i = static_cast<unsigned>(of.begin(first + threadIdx.x) - begin); i < end; ++i)
        sum = add(sum, held[i + i / group]);
      if (of.rows > 1) out[(first + threadIdx.x) * sums + sum_number] = sum;
      else of_groups[threadIdx.x] = sum;
    }
    __syncthreads();
    if (of.rows > 1 || threadIdx.x > 0) continue;
    double sum = 0;
    for (unsigned i = 0; i < groups; ++i) sum = add(sum, of_groups[i]);
    out[tile] = sum;
  }
}

}  // namespace detail

// Adds n elements, out[i] += in[i]. 16-bit elements are added in float and rounded once. Throws Error (device).
template <class T>
void add_to(cudaStream_t stream, T* out, std::type_identity_t<T> const* in, std::uint64_t n) {
  detail::with_packs(
      [&]<int N>() { detail::launch_over(stream, n, block_threads * N, detail::add_to_kernel<N, T>, out, in, n); },
      RowsView<T>{out, 1, 0}, RowsView<T const>{in, 1, 0});
}

// Sets out[i] = in[i] as another type of numbers, n of them: widened, or rounded to the nearest. Throws Error (device).
template <class From, class To>
void convert(cudaStream_t stream, From const* in, std::uint64_t n, To* out) {
  if (n == 0) return;
  detail::with_packs(
      [&]<int N>() { detail::launch_over(stream, n, block_threads * N, detail::convert_kernel<N, From, To>, in, n, out); },
      RowsView<From const>{in, 1, 0}, RowsView<To const>{out, 1, 0});
}

// Divides n values by `divisor`: true divisions, not a multiplication by the reciprocal. Throws Error (device).
template <class T>
void scale_down(cudaStream_t stream, T* values, std::uint64_t n, Computed<T> divisor) {
  detail::with_packs(
      [&]<int N>() { detail::launch_over(stream, n, block_threads * N, detail::scale_down_kernel<N, T>, values, n, divisor); },
      RowsView<T>{values, 1, 0});
}

// Returns the number of blocks for a sum over n elements.
inline std::uint64_t measured_blocks(std::int64_t n) {
  return detail::ceil_div(static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(measured_block));
}

// Sets out[i * measured_blocks(width) + b], in device memory, = the sum of the squares of block b of row i, in double.
// add_blocks makes RowOps<HostSpace>::sum_of_row_squares of them. Throws Error (device).
template <class T>
void sum_of_squares(cudaStream_t stream, RowsView<T const> rows, double* out) {
  std::uint64_t const blocks = measured_blocks(rows.width), all = blocks * static_cast<std::uint64_t>(rows.rows);
  if (all == 0) return;
  launch(stream, detail::grid_for(all), block_threads, 0, detail::sum_of_squares_kernel<T, block_threads>, rows, blocks, out);
}

// Returns the number of numbers in add_blocks' room, for each of its sums: the blocks', and its results on the way.
inline std::uint64_t numbers_to_add(std::uint64_t rows, std::uint64_t of_row) {
  auto left = detail::NumbersOfRows::of(rows, of_row);
  std::uint64_t all = left.count();
  for (; !left.last(); all += left.count()) left = left.added();
  return all;
}
// Sets out[k] = sum k of the blocks of `rows` rows, `of_row` of each; number k of block b is numbers[b * sums + k]. They are
// added by the rule of sum_group: the blocks of each row, and then the rows. Of no blocks it is zero. `numbers` has room for
// `numbers_to_add` of each sum; behind the blocks' come each launch's results for the next. Up to 4096 blocks of one row, or
// rows of one block, take one launch, up to 2^24 two. Rows of several blocks take one or two more. Throws Error (device).
template <unsigned sums>
void add_blocks(cudaStream_t stream, double* numbers, std::uint64_t rows, std::uint64_t of_row, double* out) {
  for (auto left = detail::NumbersOfRows::of(rows, of_row);; left = left.added()) {
    double* const to = left.last() ? out : numbers + left.count() * sums;
    launch(stream, detail::grid_for(left.tiles() * sums), block_threads, 0, detail::add_groups_kernel<sums>, numbers, left, to);
    if (left.last()) return;
    numbers = to;
  }
}

}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
