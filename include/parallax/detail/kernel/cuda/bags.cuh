// Sums of rows by reference, each with a factor, on a CUDA device: bags are pooled by them, and their gradients summed by
// row. RowOps<CudaSpace> calls it for pulls of bags and their updates.
#pragma once

#include <cstdint>

#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/strict.cuh"
#include "parallax/detail/kernel/cuda/sums.cuh"
#include "parallax/detail/kernel/host/bags.hpp"
#include "parallax/detail/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device {
namespace detail {

// Run k is of the terms order[offsets[k]] … order[offsets[k + 1] - 1]; without an order of terms offsets[k] …, without offsets
// of one term. Of a grouping of `count` positions they have its `inverse`, too: then their later chunks can be summed before.
struct TermRuns {
  std::uint32_t const *order, *offsets, *inverse = nullptr;
  std::uint64_t count = 0;

  // Returns the beginning of run k among the terms; `term`: the number of the term at place i of their order.
  __device__ std::uint64_t begin(std::uint64_t k) const { return offsets ? offsets[k] : k; }
  __device__ std::uint64_t term(std::uint64_t i) const { return order ? order[i] : i; }
};

// Returns N columns of term i, times its factor; the product is rounded by itself.
template <int N, class T>
__device__ Pack<T, N> load_term(RowTerms<T> const& terms, std::uint64_t i, std::int64_t column) {
  Pack<T, N> row = load<N>(terms.rows.row(terms.row_of[i]) + column);
  if (terms.factors)
    for (int k = 0; k < N; ++k) row.at[k] = multiply(terms.factors[i], row.at[k]);
  return row;
}

// Returns N columns of the sum of the terms at places [first, last) of their order, at least one. Four are loaded at a time.
template <int N, class T>
__device__ Pack<T, N> sum_of_terms(RowTerms<T> const& terms, TermRuns const& runs, std::uint64_t first, std::uint64_t last,
                                   std::int64_t column) {
  auto const term = [&](std::uint64_t i) { return load_term<N>(terms, runs.term(i), column); };
  Pack<T, N> sum = term(first);
  std::uint64_t i = first + 1;
  PARALLAX_DETAIL_AS_WRITTEN
  for (; i + 4 <= last; i += 4) {
    Pack<T, N> const a = term(i), b = term(i + 1), c = term(i + 2), d = term(i + 3);
    add_pack(sum, a), add_pack(sum, b), add_pack(sum, c), add_pack(sum, d);
  }
  PARALLAX_DETAIL_AS_WRITTEN
  for (; i < last; ++i) add_pack(sum, term(i));
  return sum;
}

// Grid and memory: as sum_later_chunks_kernel, with `later` for terms.
template <int N, class T>
__global__ void __launch_bounds__(block_threads, resident_blocks<T>(N))
    sum_later_terms_kernel(RowTerms<T> terms, TermRuns runs, std::uint64_t first_run, std::uint64_t last_run, T* later,
                           unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  std::int64_t const width = terms.rows.width;
  for (std::uint64_t row = team.number + 1; row * sum_chunk < runs.count; row += team.count) {
    auto const [first, last] = later_chunk(row, runs.order, runs.inverse, runs.offsets, first_run, last_run);
    if (first == last) continue;
    for (std::int64_t column = std::int64_t{team.lane} * N; column < width; column += std::int64_t{lanes} * N)
      store<N>(later + row * static_cast<std::uint64_t>(width) + column, sum_of_terms<N>(terms, runs, first, last, column));
  }
}

// Grid: a team of `lanes` threads a run, all teams stride over the runs. Memory: the row of every term is read once, every sum
// is written once. If there is `later`, it has the sums of later chunks.
template <int N, class T>
__global__ void __launch_bounds__(block_threads, resident_blocks<T>(N))
    sum_terms_kernel(RowTerms<T> terms, TermRuns runs, std::uint64_t first, std::uint64_t last, T const* later, T* out,
                     unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  std::int64_t const width = terms.rows.width;
  for (std::uint64_t k = first + team.number; k < last; k += team.count) {
    std::uint64_t const begin = runs.begin(k), end = runs.begin(k + 1);
    for (std::int64_t column = std::int64_t{team.lane} * N; column < width; column += std::int64_t{lanes} * N) {
      Pack<T, N> sum{};
      for (std::uint64_t chunk = begin; chunk < end; chunk += sum_chunk) {
        if (later && chunk > begin) {
          add_pack(sum, load<N>(later + chunk / sum_chunk * static_cast<std::uint64_t>(width) + column));
          continue;
        }
        std::uint64_t const chunk_end = chunk + sum_chunk < end ? chunk + sum_chunk : end;
        Pack<T, N> const part = sum_of_terms<N>(terms, runs, chunk, chunk_end, column);
        if (chunk == begin) sum = part;
        else add_pack(sum, part);
      }
      store<N>(out + (k - first) * static_cast<std::uint64_t>(width) + column, sum);
    }
  }
}

// Writes, for bags that begin anywhere, that no index is in one: two of them do not claim the same.
template <class T>
__device__ void place_in_none(std::uint64_t bags, std::uint64_t count, std::uint32_t* of_index, std::uint32_t* kept,
                              T* shares) {
  for (std::uint64_t i = thread_number(); i < count; i += thread_count()) {
    of_index[i] = 0;
    if (shares) shares[i] = T{0};
  }
  for (std::uint64_t bag = thread_number(); bag < bags; bag += thread_count()) kept[bag] = 1;
}

// Grid: warps stride over the bags; the lanes of a warp share a bag. Memory: `inverse` is read, the bag of each index written,
// and its share if there are shares; a number for each bag.
template <class T, class Index>
__global__ void __launch_bounds__(block_threads)
    place_in_bags_kernel(std::uint32_t const* begins, std::uint64_t bags, GroupingView<Index> groups, std::uint32_t* of_index,
                         std::uint32_t* kept, T* shares, std::uint32_t const* wrong, std::uint32_t wrongs) {
  for (std::uint32_t w = 0; w < wrongs; ++w)
    if (wrong[w] > 0) return place_in_none(bags, groups.count, of_index, kept, shares);
  std::uint32_t const distinct = *groups.distinct;
  for (std::uint64_t bag = thread_number() / warp_lanes; bag < bags; bag += thread_count() / warp_lanes) {
    std::uint32_t const end = begins[bag + 1];
    std::uint32_t count = 0;
    for (std::uint64_t i = std::uint64_t{begins[bag]} + lane_number(); i < end; i += warp_lanes) {
      of_index[i] = static_cast<std::uint32_t>(bag);
      count += groups.inverse[i] < distinct;
    }
    for (int with = warp_lanes / 2; with > 0; with /= 2) count += __shfl_xor_sync(all_lanes, count, with);
    count = count > 0 ? count : 1;
    if (lane_number() == 0) kept[bag] = count;
    if (!shares) continue;
    T const share = divide(T{1}, static_cast<T>(count));
    for (std::uint64_t i = std::uint64_t{begins[bag]} + lane_number(); i < end; i += warp_lanes) shares[i] = share;
  }
}

}  // namespace detail

// Sets row k - first of out, packed, = the sum of the terms of run k, for k in [first, last): of the terms order[offsets[k]] …
// order[offsets[k + 1] - 1]; zeros if there are none. With a null `order` the terms are in order; with null offsets each is a
// run. All arrays lie on the device. The bits are those of parallax::sum_terms. A run is summed by one team, so a long one
// takes its time. Its chunks are summed side by side if the runs are those of a grouping of `count` positions, with its
// `inverse`, and there is `scratch`, aligned to 256 bytes, of sums_scratch_bytes<T>(count, width), free once the stream has
// come so far. Throws Error (device).
template <class T>
void sum_terms(cudaStream_t stream, RowTerms<T> const& terms, std::uint32_t const* order, std::uint32_t const* offsets,
               std::uint64_t first, std::uint64_t last, T* out, std::uint32_t const* inverse = nullptr, std::uint64_t count = 0,
               void* scratch = nullptr) {
  if (first == last || terms.rows.width == 0) return;
  RowsView<T> const sums{out, static_cast<std::int64_t>(last - first), terms.rows.width};
  detail::with_packs(
      [&]<int N>() {
        std::int64_t const packs = terms.rows.width / N;
        detail::TermRuns const runs{order, offsets, inverse, count};
        T* const later = inverse && count > sum_chunk ? static_cast<T*>(scratch) : nullptr;
        if (later)
          detail::launch_teams(stream, count / sum_chunk, packs, detail::sum_later_terms_kernel<N, T>, terms, runs, first, last,
                               later);
        detail::launch_teams(stream, last - first, packs, detail::sum_terms_kernel<N, T>, terms, runs, first, last, later, out);
      },
      terms.rows, sums);
}

}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
