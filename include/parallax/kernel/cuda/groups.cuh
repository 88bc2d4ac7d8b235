// Equal keys grouped on a CUDA device: the kernels that read the runs off sorted keys. kernel/cuda/sort.cuh launches them
// behind its sort.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/kernel/cuda/launch.cuh"
#include "parallax/kernel/cuda/operands.hpp"
#include "parallax/kernel/cuda/packs.cuh"

namespace parallax::device {

namespace detail {

// The mask of a whole warp.
inline constexpr unsigned all_lanes = 0xffffffffu;
inline constexpr int tile_items = 8;                                     // keys a thread
inline constexpr std::uint32_t tile_keys = tile_items * block_threads;  // keys a block

// A thread's place in its warp, the warp's place in the block, and the mask of the lanes before this one.
__device__ inline unsigned lane_number() { return threadIdx.x % warp_lanes; }
__device__ inline unsigned warp_number() { return threadIdx.x / warp_lanes; }
__device__ inline unsigned lanes_below() { return (1u << lane_number()) - 1; }

// The sum of `value` over the threads of the block before this one; total: over all. `sums`: 32 words of shared memory, free
// again after the next barrier. The block has whole warps, at most 32.
__device__ inline std::uint32_t block_prefix(std::uint32_t value, std::uint32_t* sums, std::uint32_t& total) {
  std::uint32_t up_to = value;
  for (unsigned by = 1; by < warp_lanes; by *= 2) {
    std::uint32_t const before = __shfl_up_sync(all_lanes, up_to, by);
    if (lane_number() >= by) up_to += before;
  }
  if (lane_number() == warp_lanes - 1) sums[warp_number()] = up_to;
  __syncthreads();
  std::uint32_t before = 0;
  total = 0;
  for (unsigned w = 0; w < blockDim.x / warp_lanes; ++w) {
    if (w < warp_number()) before += sums[w];
    total += sums[w];
  }
  return before + up_to - value;
}

// A block's part of sorted keys: warp after warp, `items` times 32 keys each, so that item i of lane l is the warp's key
// 32 i + l.
struct Tile {
  std::uint64_t first;  // of its positions
  std::uint64_t end;    // of all positions
  int items;

  __device__ std::uint64_t position(int i) const {
    return first + (std::uint64_t{warp_number()} * static_cast<unsigned>(items) + static_cast<unsigned>(i)) * warp_lanes +
           lane_number();
  }
};

// Which of the tile's keys begin a run, 32 a word: word i is of item i of all lanes. Returns how many the warp has.
template <int items, class KeyAt>
__device__ std::uint32_t find_heads(Tile const& tile, KeyAt const& key_at, std::uint32_t (&heads)[items]) {
  std::uint32_t count = 0;
  for (int i = 0; i < items; ++i) {
    heads[i] = 0;
    if (i >= tile.items) continue;
    std::uint64_t const p = tile.position(i);
    heads[i] = __ballot_sync(all_lanes, p < tile.end && (p == 0 || key_at(p) != key_at(p - 1)));
    count += static_cast<std::uint32_t>(__popc(heads[i]));
  }
  return count;
}

// Writes what a grouping says of the tile's keys; `run` is the number of runs that begin before the warp's part of it.
template <class Index, int items, class KeyAt, class OrderAt>
__device__ void emit_runs(Tile const& tile, std::uint32_t const (&heads)[items], std::uint32_t run, KeyAt const& key_at,
                          OrderAt const& order_at, GroupingView<Index> const& out) {
  for (int i = 0; i < items; ++i) {
    if (i >= tile.items) continue;
    std::uint64_t const p = tile.position(i);
    bool const begins = heads[i] >> lane_number() & 1;
    std::uint32_t const number = run + static_cast<std::uint32_t>(__popc(heads[i] & lanes_below())) + begins - 1;
    run += static_cast<std::uint32_t>(__popc(heads[i]));
    if (p >= tile.end) continue;
    std::uint32_t const from = order_at(i, p);
    out.order[p] = from;
    out.inverse[from] = number;
    if (begins) {
      out.keys[number] = static_cast<Index>(key_at(p));
      out.offsets[number] = static_cast<std::uint32_t>(p);
    }
  }
}

// Grid: a block a tile of 2048 keys. Memory: keys are read once, one number a tile is written.
template <class Key>
__global__ void __launch_bounds__(block_threads)
    count_runs_kernel(Key const* sorted, std::uint64_t n, std::uint32_t* tile_runs) {
  __shared__ std::uint32_t sums[warp_lanes];
  Tile const tile{std::uint64_t{blockIdx.x} * tile_keys, n, tile_items};
  std::uint32_t heads[tile_items], total = 0;
  std::uint32_t const count = find_heads(tile, [&](std::uint64_t p) { return sorted[p]; }, heads);
  block_prefix(lane_number() == 0 ? count : 0, sums, total);
  if (threadIdx.x == 0) tile_runs[blockIdx.x] = total;
}

// Grid: one block, for all tiles. Turns the tiles' numbers of runs into how many runs begin before each.
template <int threads>
__global__ void __launch_bounds__(threads)
    sum_tiles_kernel(std::uint32_t* tile_runs, std::uint64_t tiles, std::uint32_t* distinct) {
  __shared__ std::uint32_t sums[warp_lanes];
  std::uint32_t before = 0;
  for (std::uint64_t first = 0; first < tiles; first += blockDim.x) {
    std::uint64_t const tile = first + threadIdx.x;
    std::uint32_t total = 0;
    std::uint32_t const prefix = block_prefix(tile < tiles ? tile_runs[tile] : 0, sums, total);
    if (tile < tiles) tile_runs[tile] = before + prefix;
    before += total;
    __syncthreads();
  }
  if (threadIdx.x == 0) *distinct = before;
}

// Grid: a block a tile. Memory: keys and order are read once; order, inverse (at the positions), keys and offsets of runs
// written. The tile's first run is told by `tile_runs`, which sum_tiles_kernel has turned into how many begin before it.
template <class Key, class Index>
__global__ void __launch_bounds__(block_threads)
    emit_groups_kernel(Key const* sorted, std::uint32_t const* order, std::uint32_t const* tile_runs, GroupingView<Index> out) {
  __shared__ std::uint32_t sums[warp_lanes];
  Tile const tile{std::uint64_t{blockIdx.x} * tile_keys, out.count, tile_items};
  auto const key_at = [&](std::uint64_t p) { return sorted[p]; };
  std::uint32_t heads[tile_items], total = 0;
  std::uint32_t const count = find_heads(tile, key_at, heads);
  std::uint32_t before = block_prefix(lane_number() == 0 ? count : 0, sums, total);
  before = __shfl_sync(all_lanes, before, 0) + tile_runs[blockIdx.x];
  emit_runs(tile, heads, before, key_at, [&](int, std::uint64_t p) { return order[p]; }, out);
  if (tile.first + tile_keys >= tile.end && threadIdx.x == 0) out.offsets[*out.distinct] = out.count;
}

// Grid: threads stride over the keys. Memory: keys are read, sort keys and positions written. Makes the pairs that the sort
// works on: every key in the sort's type, and its position.
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
