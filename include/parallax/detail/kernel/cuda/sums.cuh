// Rows summed run by run on a CUDA device, in the order of the host: chunks of 64 rows, and the chunks' sums in order.
// Gradients are summed by key through it, before they are sent or applied.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/detail/kernel/cuda/groups.cuh"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/strict.cuh"
#include "parallax/detail/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device {
namespace detail {

// Writes to `sum` the sum of N columns of rows order[first] … order[last - 1], in order, from a copy of the first. Rows are
// loaded four at a time. Positions have 32 bits here, as in groupings: in registers each takes half as much.
template <int N, class V>
__device__ void sum_rows_of(RowsView<V const> values, std::uint32_t const* order, std::uint32_t first, std::uint32_t last,
                            std::int64_t column, Computed<V> (&sum)[N]) {
  auto const row = [&](std::uint32_t i) { return load<N>(values.row(order[i]) + column); };
  auto const add_row = [&](Pack<V, N> const& addend) {
    for (int k = 0; k < N; ++k) sum[k] = add(sum[k], widened(addend.at[k]));
  };
  Pack<V, N> const start = row(first);
  for (int k = 0; k < N; ++k) sum[k] = widened(start.at[k]);
  std::uint32_t i = first + 1;
  PARALLAX_DETAIL_AS_WRITTEN
  for (; last - i >= 4; i += 4) {
    Pack<V, N> const a = row(i), b = row(i + 1), c = row(i + 2), d = row(i + 3);
    add_row(a), add_row(b), add_row(c), add_row(d);
  }
  PARALLAX_DETAIL_AS_WRITTEN
  for (; i < last; ++i) add_row(row(i));
}

// Sums of the rows of every run. A run's later chunks, those after its first, were summed before: the sum of the one from
// sorted position p on lies in row p / 64 of `later`. No two chunks share such a row, for those of one run begin 64 apart, and
// a run's first one, of 64, has no row.
template <class V, class Index>
struct RunSums {
  // Type of the rows, for kernels of updates.
  using value_type = V;

  RowsView<V const> values;
  GroupingView<Index> groups;
  Computed<V> const* later = nullptr;
  std::uint32_t first_run = 0,
                last_run = ~0u;  // the runs in demand: number first_run … last_run - 1, as far as there are any

  // Writes to `sum` N columns of the sum of run k, from `column` on: its first chunk, summed here, and those of `later`.
  template <int N>
  __device__ void get(std::uint64_t k, std::int64_t column, Computed<V> (&sum)[N]) const {
    using Sum = Pack<Computed<V>, N>;
    constexpr auto chunk = static_cast<std::uint32_t>(sum_chunk);
    std::uint32_t const begin = groups.offsets[k], end = groups.offsets[k + 1];
    sum_of_chunk(begin, end - begin > chunk ? begin + chunk : end, column, sum);
    std::uint32_t left = (end - begin - 1) / chunk;  // later chunks: their rows are neighbours
    if (left == 0) return;
    Computed<V> const* next = later + (std::uint64_t{begin / chunk} + 1) * static_cast<std::uint64_t>(values.width) + column;
    auto const take_chunk = [&] {
      Sum const taken = load<N>(next);
      next += values.width;
      return taken;
    };
    auto const add_chunk = [&](Sum const& addend) {
      for (int j = 0; j < N; ++j) sum[j] = add(sum[j], addend.at[j]);
    };
    PARALLAX_DETAIL_AS_WRITTEN
    for (; left >= 4; left -= 4) {
      Sum const a = take_chunk(), b = take_chunk(), c = take_chunk(), d = take_chunk();
      add_chunk(a), add_chunk(b), add_chunk(c), add_chunk(d);
    }
    PARALLAX_DETAIL_AS_WRITTEN
    for (; left > 0; --left) add_chunk(take_chunk());
  }
  // Writes to `sum` N columns of the sum of the rows at sorted positions [first, last).
  template <int N>
  __device__ void sum_of_chunk(std::uint32_t first, std::uint32_t last, std::int64_t column, Computed<V> (&sum)[N]) const {
    sum_rows_of<N, V>(values, groups.order, first, last, column, sum);
  }
};

// Sorted positions [first, last) of a chunk; none if they are equal.
struct Chunk {
  std::uint32_t first, last;
};
// Returns the later chunk that begins at one of the 64 sorted positions from `row` * 64 on, of runs [first_run, last_run).
__device__ inline Chunk later_chunk(std::uint64_t row, std::uint32_t const* order, std::uint32_t const* inverse,
                                    std::uint32_t const* offsets, std::uint64_t first_run, std::uint64_t last_run) {
  std::uint64_t const at = row * sum_chunk;
  std::uint32_t const run = inverse[order[at]];
  if (run < first_run || run >= last_run) return {};
  std::uint64_t const begin = offsets[run], end = offsets[run + 1];
  std::uint64_t const first = begin + ceil_div(at - begin, sum_chunk) * sum_chunk;
  if (begin == at || first >= end) return {};
  std::uint64_t const last = first + sum_chunk < end ? first + sum_chunk : end;
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last)};
}

// Grid: a team of `lanes` threads a row of `later`, all teams stride over these rows; rows without a later chunk at their 64
// sorted positions are passed over. Memory: the rows of later chunks are read once, one row for 64 of them is written.
template <int N, class V, class Index>
__global__ void __launch_bounds__(block_threads, resident_blocks<Computed<V>>(N))
    sum_later_chunks_kernel(RunSums<V, Index> sums, Computed<V>* later, unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  GroupingView<Index> const& groups = sums.groups;
  for (std::uint64_t row = team.number + 1; row * sum_chunk < groups.count; row += team.count) {
    auto const [first, last] = later_chunk(row, groups.order, groups.inverse, groups.offsets, sums.first_run, sums.last_run);
    if (first == last) continue;
    for (std::int64_t column = std::int64_t{team.lane} * N; column < sums.values.width; column += std::int64_t{lanes} * N) {
      Pack<Computed<V>, N> sum;
      sums.sum_of_chunk(first, last, column, sum.at);
      store<N>(later + row * static_cast<std::uint64_t>(sums.values.width) + column, sum);
    }
  }
}

// Grid: a team a run, all teams stride over the runs. Memory: every row is read once, rows of later chunks excepted, every sum
// is written once, and zeros of missing runs.
template <int N, class V, class Index, class T>
__global__ void __launch_bounds__(block_threads, resident_blocks<Computed<V>>(N))
    coalesce_kernel(RunSums<V, Index> sums, T* out, unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  std::uint64_t const runs = *sums.groups.distinct, end = sums.last_run == ~0u ? runs : sums.last_run;
  std::int64_t const width = sums.values.width;
  for (std::uint64_t k = sums.first_run + team.number; k < end; k += team.count)
    for (std::int64_t column = std::int64_t{team.lane} * N; column < width; column += std::int64_t{lanes} * N) {
      Computed<V> sum[N] = {};
      if (k < runs && sums.groups.offsets[k] < sums.groups.offsets[k + 1]) sums.get(k, column, sum);
      Pack<T, N> stored;
      for (int j = 0; j < N; ++j) stored.at[j] = narrowed<T>(sum[j]);
      store<N>(out + (k - sums.first_run) * static_cast<std::uint64_t>(width) + column, stored);
    }
}

// Launches the sums of later chunks if runs can have any, and returns the source for the next kernel. `scratch` stays until
// this kernel is done. Throws Error (device).
template <int N, class V, class Index>
RunSums<V, Index> sum_later_chunks(cudaStream_t stream, RowsView<V const> values, GroupingView<Index> const& groups,
                                   void* scratch, std::uint32_t first = 0, std::uint32_t last = ~0u) {
  auto* const later = static_cast<Computed<V>*>(scratch);
  RunSums<V, Index> const sums{values, groups, later, first, last};
  if (groups.count > sum_chunk)
    launch_teams(stream, groups.count / sum_chunk, values.width / N, sum_later_chunks_kernel<N, V, Index>, sums, later);
  return sums;
}

}  // namespace detail

// Returns the bytes of scratch for sums over n positions of rows of V: one row for 64.
template <class V>
std::size_t sums_scratch_bytes(std::uint64_t n, std::int64_t width) {
  return n > sum_chunk ? detail::ceil_div(n, sum_chunk) * static_cast<std::size_t>(width) * sizeof(Computed<V>) : 0;
}

// Sets row k - first of out, packed, = the sum of the rows of `values` at the positions of distinct key k, for all u of them,
// or those with numbers in [first, last); zeros if there is no such key, or its run is empty. The order is
// RowOps<HostSpace>::coalesce's. 16-bit rows are summed in float; `out` is of float or of the rows' type. `scratch`, aligned to
// 256 bytes, has sums_scratch_bytes<V>(groups.count, width) of them. Throws Error (device).
template <class V, class Index, class T>
void coalesce(cudaStream_t stream, RowsView<V const> values, GroupingView<Index> const& groups, T* out, void* scratch,
              std::uint32_t first = 0, std::uint32_t last = ~0u) {
  static_assert(std::is_same_v<Computed<T>, Computed<V>>, "parallax: sums are of the rows' type, or float for rows of 16 bits");
  std::uint32_t const most = groups.most(first, last);
  if (most == 0 || values.width == 0) return;
  RowsView<T> const sums{out, static_cast<std::int64_t>(most), values.width};
  detail::with_packs(
      [&]<int N>() {
        detail::launch_teams(stream, most, values.width / N, detail::coalesce_kernel<N, V, Index, T>,
                             detail::sum_later_chunks<N>(stream, values, groups, scratch, first, last), out);
      },
      values, sums);
}

}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
