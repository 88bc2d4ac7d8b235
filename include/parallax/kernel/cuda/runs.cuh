// What is read off a grouping on a CUDA device: lengths of runs, sums of counts, and where sorted keys are cut. Called
// by programs that group keys on the device; the library reads its own plans on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "parallax/kernel/cuda/groups.cuh"
#include "parallax/kernel/cuda/launch.cuh"
#include "parallax/kernel/cuda/packs.cuh"

namespace parallax::device {
namespace detail {

// Grid: threads stride over the runs. Memory: offsets are read, lengths written.
template <class Index>
__global__ void __launch_bounds__(block_threads) run_lengths_kernel(GroupingView<Index> groups, std::uint32_t* out) {
  std::uint64_t const runs = *groups.distinct;
  for (std::uint64_t k = thread_number(); k < runs; k += thread_count()) out[k] = groups.offsets[k + 1] - groups.offsets[k];
}

// Grid: warps stride over the runs; the lanes of a warp share a run. Memory: order is read, counts at its positions; sums
// written.
template <class Index>
__global__ void __launch_bounds__(block_threads)
    sum_counts_kernel(std::uint32_t const* counts, GroupingView<Index> groups, std::uint32_t* out) {
  std::uint64_t const runs = *groups.distinct;
  for (std::uint64_t k = thread_number() / warp_lanes; k < runs; k += thread_count() / warp_lanes) {
    std::uint32_t sum = 0;
    for (std::uint64_t i = std::uint64_t{groups.offsets[k]} + lane_number(); i < groups.offsets[k + 1]; i += warp_lanes)
      sum += counts[groups.order[i]];
    for (int with = warp_lanes / 2; with > 0; with /= 2) sum += __shfl_xor_sync(all_lanes, sum, with);
    if (lane_number() == 0) out[k] = sum;
  }
}

// Grid: a thread a boundary. Memory: the keys on the way of a binary search.
template <class Key>
__global__ void __launch_bounds__(block_threads)
    bucket_kernel(Key const* keys, Count count, Key const* bases, std::uint32_t boundaries, std::uint32_t* begins) {
  std::uint64_t const k = thread_number();
  if (k >= boundaries) return;
  auto const n = static_cast<std::uint32_t>(count());
  std::uint32_t first = 0, left = k + 1 < boundaries ? n : 0;
  while (left > 0) {
    std::uint32_t const half = left / 2;
    bool const below = keys[first + half] < bases[k];
    if (below) first += half + 1;
    left = below ? left - half - 1 : half;
  }
  begins[k] = k + 1 < boundaries ? first : n;
}

}  // namespace detail

// out[k] = the number of positions of distinct key k, for all u of them; `out` has room for as many.
template <class Index>
void run_lengths(cudaStream_t stream, GroupingView<Index> const& groups, std::uint32_t* out) {
  launch(stream, detail::grid_for(detail::ceil_div(groups.count, block_threads)), block_threads, 0,
         detail::run_lengths_kernel<Index>, groups, out);
}

// out[k] = the sum of `counts` (one per position) over the positions of distinct key k, modulo 2^32.
template <class Index>
void sum_counts(cudaStream_t stream, std::uint32_t const* counts, GroupingView<Index> const& groups, std::uint32_t* out) {
  launch(stream, detail::grid_for(detail::ceil_div(groups.count, block_threads / warp_lanes)), block_threads, 0,
         detail::sum_counts_kernel<Index>, counts, groups, out);
}

// Cuts ascending keys at ascending boundaries: begins[k] = the first position whose key is >= bases[k], the last one the number
// of keys; bucket k is [begins[k], begins[k + 1]). All arrays are on the device. There are `most` keys, or *count of them.
template <class Key>
void bucket(cudaStream_t stream, Key const* sorted_keys, std::uint32_t most, std::type_identity_t<Key> const* bases,
            std::uint32_t boundaries, std::uint32_t* begins, std::uint32_t const* count = nullptr) {
  launch(stream, static_cast<unsigned>(detail::ceil_div(boundaries, block_threads)), block_threads, 0,
         detail::bucket_kernel<Key>, sorted_keys, detail::Count{most, count}, bases, boundaries, begins);
}

}  // namespace parallax::device
