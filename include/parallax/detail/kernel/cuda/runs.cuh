// Runs of a grouping on a CUDA device: lengths, sums of counts, cuts of sorted keys, and cut groups padded to equal places for
// each owner. Plans made by a device are cut by it, for their journeys, and padded for tables with px::Padded; if rows are
// counted their counts are made and summed by it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "parallax/detail/kernel/cuda/groups.cuh"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/packs.cuh"

namespace parallax::inline v0_2::device {
namespace detail {

// Grid: threads stride over the runs. Memory: offsets are read, lengths written.
template <class Index>
__global__ void __launch_bounds__(block_threads)
    run_lengths_kernel(GroupingView<Index> groups, std::uint32_t first, std::uint32_t last, std::uint32_t* out) {
  std::uint64_t const runs = *groups.distinct, end = last < runs ? last : runs;
  for (std::uint64_t k = first + thread_number(); k < end; k += thread_count())
    out[k - first] = groups.offsets[k + 1] - groups.offsets[k];
}

// Grid: warps stride over the runs; the lanes of a warp share a run. Memory: order is read, counts at its positions; sums
// written, and 1 for missing runs.
template <class Index>
__global__ void __launch_bounds__(block_threads)
    sum_counts_kernel(std::uint32_t const* counts, GroupingView<Index> groups, std::uint32_t first, std::uint32_t last,
                      std::uint32_t* out) {
  std::uint64_t const runs = *groups.distinct, end = last == ~0u ? runs : last;
  for (std::uint64_t k = first + thread_number() / warp_lanes; k < end; k += thread_count() / warp_lanes) {
    if (k >= runs) {
      if (lane_number() == 0) out[k - first] = 1;
      continue;
    }
    std::uint32_t sum = 0;
    for (std::uint64_t i = std::uint64_t{groups.offsets[k]} + lane_number(); i < groups.offsets[k + 1]; i += warp_lanes)
      sum += counts[groups.order[i]];
    for (int with = warp_lanes / 2; with > 0; with /= 2) sum += __shfl_xor_sync(all_lanes, sum, with);
    if (lane_number() == 0) out[k - first] = sum;
  }
}

// Returns the number of the first of n ascending keys not below `base`.
template <class Key>
__device__ std::uint32_t first_not_below(Key const* keys, std::uint32_t n, Key base) {
  std::uint32_t first = 0;
  for (std::uint32_t left = n; left > 0;) {
    std::uint32_t const half = left / 2;
    bool const below = keys[first + half] < base;
    if (below) first += half + 1;
    left = below ? left - half - 1 : half;
  }
  return first;
}

// Returns the number, below `end`, of the last entry not above `value`; entry 0 never is. `at(k)` is entry k, and ascends.
template <class T, class At>
__device__ std::uint32_t last_not_above(std::uint32_t end, T value, At const& at) {
  std::uint32_t found = 0;
  for (std::uint32_t left = end - 1; left > 0;) {
    std::uint32_t const step = (left + 1) / 2;
    bool const there = at(found + step) <= value;
    found += there ? step : 0;
    left = there ? left - step : step - 1;
  }
  return found;
}

// Grid: a thread a boundary. Memory: the keys on the way of a binary search.
template <class Key>
__global__ void __launch_bounds__(block_threads)
    bucket_kernel(Key const* keys, Count count, Key const* bases, std::uint32_t boundaries, std::uint32_t* begins) {
  std::uint64_t const k = thread_number();
  if (k >= boundaries) return;
  auto const n = static_cast<std::uint32_t>(count());
  begins[k] = k + 1 < boundaries ? first_not_below(keys, n, bases[k]) : n;
}

// Grid: one block. Memory: the keys on the way of a binary search for each cut, and the last one.
template <class Index>
__global__ void __launch_bounds__(block_threads)
    cut_groups_kernel(GroupingView<Index> groups, Index const* bases, std::uint64_t first, std::uint64_t stride,
                      std::uint64_t cuts, std::int64_t bound, std::uint32_t const* wrong, std::uint32_t wrongs,
                      std::uint32_t* told) {
  __shared__ std::uint32_t sums[warp_lanes];
  std::uint32_t const keys = *groups.distinct;
  bool const last_is_none = keys > 0 && static_cast<std::int64_t>(groups.keys[keys - 1]) >= bound;
  std::uint32_t const distinct = keys - last_is_none;
  for (std::uint64_t k = threadIdx.x; k < cuts; k += blockDim.x)
    told[k] = first_not_below(groups.keys, distinct, bases[first + k * stride]);
  std::uint32_t all_wrong = 0;  // behind the barrier all have read how many keys there are
  block_prefix(threadIdx.x < wrongs ? wrong[threadIdx.x] : 0, sums, all_wrong);
  if (threadIdx.x > 0) return;
  told[cuts] = *groups.distinct = distinct;
  told[cuts + 1] = groups.count - groups.offsets[distinct];
  told[cuts + 2] = all_wrong;
}

// Returns true if a cut batch cannot be sent as it is. `told`: the results of cut_groups.
__device__ inline bool misfits(Padding const& padding, std::uint32_t const* told) {
  bool misfit = told[padding.owners + 3] > 0 || (padding.refuses && told[padding.owners + 2] > 0);
  for (std::uint32_t owner = 0; owner < padding.owners; ++owner)
    misfit = misfit || told[owner + 1] - told[owner] > padding.capacity;
  return misfit;
}

// Adds a batch's parts without a place to the tally; by one thread.
__device__ inline void add_to_tally(PaddingTally& tally, Padding const& padding, std::uint32_t const* told) {
  std::uint32_t const none = told[padding.owners + 2];
  (padding.refuses ? tally.refused : tally.dropped) += none;
  tally.wrong += told[padding.owners + 3];
  for (std::uint32_t owner = 0; owner < padding.owners; ++owner) {
    std::uint32_t const run = told[owner + 1] - told[owner];
    if (run <= padding.capacity) continue;
    ++tally.overflows;
    if (run > tally.longest) tally.longest = run;
  }
}

// Grid: threads stride over the places, then over the positions. Memory: keys, the beginnings of their runs, and inverse are
// read once, as many numbers written; the cuts, on the way of a binary search.
template <class Index>
__global__ void __launch_bounds__(block_threads)
    pad_groups_kernel(GroupingView<Index> from, std::uint32_t const* told, Padding padding, std::int64_t bound,
                      GroupingView<Index> to, PaddingTally* tally) {
  std::uint32_t const length = padding.capacity + 1, places = padding.owners * length;
  std::uint32_t const distinct = told[padding.owners + 1];
  bool const lost = told[padding.owners + 3] > 0;  // after wrong offsets nobody knows the bag of an index
  for (std::uint64_t place = thread_number(); place <= places; place += thread_count()) {
    auto const owner = static_cast<std::uint32_t>(place / length), at = static_cast<std::uint32_t>(place % length);
    if (place == places) {
      add_to_tally(*tally, padding, told);
      to.offsets[places] = lost ? 0 : from.offsets[told[padding.owners]];
      *to.distinct = places;
      continue;
    }
    std::uint32_t const key = told[owner] + at, end = told[owner + 1];
    bool const taken = !lost && at < padding.capacity && key < end;
    bool const misfit = at == padding.capacity && misfits(padding, told);
    to.keys[place] = taken ? from.keys[key] : static_cast<Index>(bound + misfit);
    to.offsets[place] = lost ? 0 : from.offsets[taken ? key : end];
  }
  for (std::uint64_t i = thread_number(); i < from.count; i += thread_count()) {
    std::uint32_t const key = from.inverse[i];
    std::uint32_t const owner = last_not_above(padding.owners, key, [&](std::uint32_t o) { return told[o]; });
    std::uint32_t const at = key - told[owner];
    to.inverse[i] = !lost && key < distinct && at < padding.capacity ? owner * length + at : places;
  }
}

// Grid: one thread. The last distinct keys may be `bound` and bound + 1.
template <class Index>
__global__ void __launch_bounds__(warp_lanes) drop_padding_kernel(GroupingView<Index> groups, std::int64_t bound) {
  if (threadIdx.x > 0) return;
  std::uint32_t keys = *groups.distinct;
  bool const misfit = keys > 0 && static_cast<std::int64_t>(groups.keys[keys - 1]) > bound;
  while (keys > 0 && static_cast<std::int64_t>(groups.keys[keys - 1]) >= bound) --keys;
  *groups.distinct = misfit ? 0 : keys;
}

}  // namespace detail

// Sets out[k - first] = the number of positions of distinct key k, for all u of them, or those with numbers in [first, last);
// `out`, on the device, has room for as many. Throws Error (device).
template <class Index>
void run_lengths(cudaStream_t stream, GroupingView<Index> const& groups, std::uint32_t* out, std::uint32_t first = 0,
                 std::uint32_t last = ~0u) {
  detail::launch_over(stream, groups.most(first, last), block_threads, detail::run_lengths_kernel<Index>, groups, first, last,
                      out);
}

// Sets out[k - first] = the sum of `counts` (one per position) over the positions of distinct key k, modulo 2^32, for the keys
// of run_lengths, and 1 for missing keys in [first, last). Throws Error (device).
template <class Index>
void sum_counts(cudaStream_t stream, std::uint32_t const* counts, GroupingView<Index> const& groups, std::uint32_t* out,
                std::uint32_t first = 0, std::uint32_t last = ~0u) {
  detail::launch_over(stream, groups.most(first, last), block_threads / warp_lanes, detail::sum_counts_kernel<Index>, counts,
                      groups, first, last, out);
}

// Cuts ascending keys at ascending boundaries: begins[k] = the first position with a key >= bases[k], the last one the number
// of keys; bucket k is [begins[k], begins[k + 1]). All arrays are on the device. There are `most` keys, or *count of them.
template <class Key>
void bucket(cudaStream_t stream, Key const* sorted_keys, std::uint32_t most, std::type_identity_t<Key> const* bases,
            std::uint32_t boundaries, std::uint32_t* begins, std::uint32_t const* count = nullptr) {
  launch(stream, static_cast<unsigned>(detail::ceil_div(boundaries, block_threads)), block_threads, 0,
         detail::bucket_kernel<Key>, sorted_keys, detail::Count{most, count}, bases, boundaries, begins);
}

}  // namespace parallax::device
