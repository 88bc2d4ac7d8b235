// Equal keys grouped on a CUDA device: the kernels behind the sort, which read the runs off sorted keys.
// detail/kernel/cuda/sort.cuh launches them.
#pragma once

#include <cstdint>

#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/packs.cuh"

namespace parallax::inline v0_2::device {

namespace detail {

// The mask of a whole warp.
inline constexpr unsigned all_lanes = 0xffffffffu;
inline constexpr int tile_items = 8;                                    // keys a thread
inline constexpr std::uint32_t tile_keys = tile_items * block_threads;  // keys a block

// Returns a thread's place in its warp, the warp's place in the block, and the mask of the lanes before this one.
__device__ inline unsigned lane_number() { return threadIdx.x % warp_lanes; }
__device__ inline unsigned warp_number() { return threadIdx.x / warp_lanes; }
__device__ inline unsigned lanes_below() { return (1u << lane_number()) - 1; }

// Returns the sum of `value` over the lanes of the warp up to this one.
__device__ inline std::uint32_t warp_prefix(std::uint32_t value) {
  for (unsigned by = 1; by < warp_lanes; by *= 2) {
    std::uint32_t const before = __shfl_up_sync(all_lanes, value, by);
    if (lane_number() >= by) value += before;
  }
  return value;
}

// Returns the sum of `value` over the threads of the block before this one; total: over all. `sums`: 32 words of shared memory,
// free again after the next barrier. The block has whole warps, at most 32.
__device__ inline std::uint32_t block_prefix(std::uint32_t value, std::uint32_t* sums, std::uint32_t& total) {
  std::uint32_t const up_to = warp_prefix(value);
  if (lane_number() == warp_lanes - 1) sums[warp_number()] = up_to;
  __syncthreads();
  unsigned const warps = blockDim.x / warp_lanes;
  std::uint32_t const own = lane_number() < warps ? sums[lane_number()] : 0, warps_up_to = warp_prefix(own);
  total = __shfl_sync(all_lanes, warps_up_to, warp_lanes - 1);
  return __shfl_sync(all_lanes, warps_up_to - own, static_cast<int>(warp_number())) + up_to - value;
}

// A block's part of sorted keys: warp after warp, `items` times 32 keys each, so item i of lane l is the warp's key 32 i + l.
// Position holds places beyond the end as well.
template <class Position>
struct Tile {
  Position first;  // of its positions
  Position end;    // of all positions
  int items;

  __device__ Position position(int i) const {
    return first + (Position{warp_number()} * static_cast<unsigned>(items) + static_cast<unsigned>(i)) * warp_lanes +
           lane_number();
  }
};

// Loads the thread's items of an array, by position, all asked for before one is waited for.
template <class Position, class Value, int items>
__device__ void load_items(Tile<Position> const& tile, Value const* values, Value (&own)[items]) {
  for (int i = 0; i < items; ++i) {
    Position const p = tile.position(i);
    own[i] = i < tile.items && p < tile.end ? values[p] : Value{};
  }
}

// Finds the tile's keys at the beginnings of runs, 32 a word: word i is of item i of all lanes. `own` are the thread's keys of
// all that are `sorted`. Returns the number of runs begun by the warp.
template <class Position, class Key, int items>
__device__ std::uint32_t find_heads(Tile<Position> const& tile, Key const* sorted, Key const (&own)[items],
                                    std::uint32_t (&heads)[items]) {
  std::uint32_t count = 0;
  for (int i = 0; i < items; ++i) {
    heads[i] = 0;
    if (i >= tile.items) continue;
    Position const p = tile.position(i);
    heads[i] = __ballot_sync(all_lanes, p < tile.end && (p == 0 || own[i] != sorted[p - 1]));
    count += static_cast<std::uint32_t>(__popc(heads[i]));
  }
  return count;
}

// Writes the grouping of the tile's keys; `run` is the number of runs that begin before the warp's part of it.
template <class Position, class Key, class Index, int items>
__device__ void emit_runs(Tile<Position> const& tile, std::uint32_t const (&heads)[items], std::uint32_t run,
                          Key const (&own)[items], std::uint32_t const (&order)[items], GroupingView<Index> const& out) {
  for (int i = 0; i < items; ++i) {
    if (i >= tile.items) continue;
    Position const p = tile.position(i);
    bool const begins = heads[i] >> lane_number() & 1;
    std::uint32_t const number = run + static_cast<std::uint32_t>(__popc(heads[i] & lanes_below())) + begins - 1;
    run += static_cast<std::uint32_t>(__popc(heads[i]));
    if (p >= tile.end) continue;
    out.order[p] = order[i];
    out.inverse[order[i]] = number;
    if (begins) {
      out.keys[number] = static_cast<Index>(own[i]);
      out.offsets[number] = static_cast<std::uint32_t>(p);
    }
  }
}

// Sorted keys by blocks: each takes as many tiles of 2048 as leave no more than most_stretches stretches, for a block adds up
// the runs of all stretches before its own.
struct Stretches {
  std::uint64_t keys;  // of one
  unsigned count;
};
inline constexpr std::uint64_t most_stretches = 1024;
inline Stretches stretches_of(std::uint64_t n) {
  std::uint64_t const keys = ceil_div(ceil_div(n, tile_keys), most_stretches) * tile_keys;
  return {keys, static_cast<unsigned>(ceil_div(n, keys))};
}

// Grid: a block a stretch. Memory: keys are read once, one number a stretch is written.
template <class Key>
__global__ void __launch_bounds__(block_threads)
    count_runs_kernel(Key const* sorted, std::uint64_t n, std::uint64_t stretch, std::uint32_t* stretch_runs) {
  __shared__ std::uint32_t sums[warp_lanes];
  std::uint64_t const begin = blockIdx.x * stretch, end = begin + stretch < n ? begin + stretch : n;
  std::uint32_t count = 0, total = 0;
  for (std::uint64_t first = begin; first < end; first += tile_keys) {
    Tile<std::uint64_t> const tile{first, end, tile_items};
    Key keys[tile_items];
    std::uint32_t heads[tile_items];
    load_items(tile, sorted, keys);
    count += find_heads(tile, sorted, keys, heads);
  }
  block_prefix(lane_number() == 0 ? count : 0, sums, total);
  if (threadIdx.x == 0) stretch_runs[blockIdx.x] = total;
}

// Grid: a block a stretch. Memory: keys and order are read once; order, inverse (at the positions), keys and offsets of runs
// written. The number of runs before the stretch is summed from the stretches before it.
template <class Key, class Index>
__global__ void __launch_bounds__(block_threads)
    emit_groups_kernel(Key const* sorted, std::uint32_t const* order, std::uint64_t stretch, std::uint32_t const* stretch_runs,
                       GroupingView<Index> out) {
  __shared__ std::uint32_t sums[warp_lanes];
  std::uint64_t const begin = blockIdx.x * stretch, end = begin + stretch < out.count ? begin + stretch : out.count;
  std::uint32_t before = 0, run = 0;
  for (unsigned k = threadIdx.x; k < blockIdx.x; k += blockDim.x) before += stretch_runs[k];
  block_prefix(before, sums, run);
  for (std::uint64_t first = begin; first < end; first += tile_keys) {
    Tile<std::uint64_t> const tile{first, end, tile_items};
    Key keys[tile_items];
    std::uint32_t from[tile_items], heads[tile_items], total = 0;
    load_items(tile, sorted, keys);
    load_items(tile, order, from);
    std::uint32_t const count = find_heads(tile, sorted, keys, heads);
    __syncthreads();  // before the sums are written anew
    std::uint32_t const warps_before = block_prefix(lane_number() == 0 ? count : 0, sums, total);
    emit_runs(tile, heads, run + __shfl_sync(all_lanes, warps_before, 0), keys, from, out);
    run += total;
  }
  if (end == out.count && threadIdx.x == 0) {
    *out.distinct = run;
    out.offsets[run] = out.count;
  }
}

// Grid: threads stride over the keys. Memory: keys are read, sort keys and positions written. Makes the pairs for the sort:
// every key in the sort's type, and its position.
template <class Key, class Index>
__global__ void __launch_bounds__(block_threads)
    number_keys_kernel(Index const* keys, std::uint64_t n, Key* sort_keys, std::uint32_t* positions) {
  for (std::uint64_t i = thread_number(); i < n; i += thread_count()) {
    sort_keys[i] = static_cast<Key>(keys[i]);
    positions[i] = static_cast<std::uint32_t>(i);
  }
}

}  // namespace detail
}  // namespace parallax::device
