// Keys grouped by value on a CUDA device: one radix sort over the significant bits, in one block for few keys, CUB's for
// many. Plans of ids on a device are made by it, through `RowOps<CudaSpace>::group_keys`.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "parallax/core/error.hpp"
#include "parallax/kernel/cuda/groups.cuh"
#include "parallax/kernel/cuda/launch.cuh"
#include "parallax/kernel/cuda/row_ops.hpp"

namespace parallax::device {
namespace detail {

// The widest digit of the sort in one block, whose counters must fit its shared memory; and the most threads of that block.
inline constexpr int most_digit_bits = 7;
inline constexpr std::uint32_t few_threads = 1024;
template <class Key>
inline constexpr std::uint32_t few_keys = 32 * 1024 / sizeof(Key);  // that 32 KiB of shared memory hold: 8192 or 4096

// A block's exchange of keys and positions, and its counters of digits: one a digit and warp.
template <class Key>
struct FewShared {
  union {
    Key keys[few_keys<Key>];
    std::uint16_t positions[few_keys<Key>];
  };
  std::uint16_t counters[(1 << most_digit_bits) * few_threads / warp_lanes];
  std::uint32_t sums[warp_lanes];
};

// For each of a thread's keys, how many of its warp's keys with the same digit come before it; counts all of them.
template <class Key, int items>
__device__ void rank_in_warp(Key const (&keys)[items], Tile const& tile, int shift, unsigned mask, std::uint16_t* counters,
                             std::uint32_t (&ranks)[items]) {
  unsigned const warps = blockDim.x / warp_lanes;
  for (int i = 0; i < items; ++i) {
    if (i >= tile.items) continue;
    bool const there = tile.position(i) < tile.end;
    unsigned const digit = there ? static_cast<unsigned>(keys[i] >> shift) & mask : mask + 1;
    unsigned const alike = __match_any_sync(all_lanes, digit);
    int const leader = __ffs(static_cast<int>(alike)) - 1;
    std::uint32_t before = 0;
    if (there && static_cast<int>(lane_number()) == leader) {
      std::uint16_t& counter = counters[digit * warps + warp_number()];
      before = counter;
      counter = static_cast<std::uint16_t>(before + static_cast<unsigned>(__popc(alike)));
    }
    __syncwarp();
    ranks[i] = __shfl_sync(all_lanes, before, leader) + static_cast<std::uint32_t>(__popc(alike & lanes_below()));
  }
}

// Turns the counts, digit by digit and within a digit warp by warp, into first places.
__device__ inline void places_from_counts(std::uint16_t* counters, unsigned count, std::uint32_t* sums) {
  unsigned const each = (count + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
  unsigned const last = first + each < count ? first + each : count;
  std::uint32_t own = 0, total = 0;
  for (unsigned k = first; k < last; ++k) own += counters[k];
  std::uint32_t place = block_prefix(own, sums, total);
  for (unsigned k = first; k < last; ++k) {
    std::uint32_t const here = counters[k];
    counters[k] = static_cast<std::uint16_t>(place);
    place += here;
  }
}

// Every thread's items to their places, and the items at its own places back.
template <class Item, class Value, int items>
__device__ void exchange(Item* shared, Tile const& tile, std::uint32_t const (&places)[items], Value (&held)[items]) {
  for (int i = 0; i < items; ++i)
    if (i < tile.items && tile.position(i) < tile.end) shared[places[i]] = static_cast<Item>(held[i]);
  __syncthreads();
  for (int i = 0; i < items; ++i)
    if (i < tile.items && tile.position(i) < tile.end) held[i] = shared[tile.position(i)];
  __syncthreads();
}

// Grid: one block, for all keys, with as many threads as keys, at most 1024 of at most 8 keys each. A stable sort by digits of
// at most 7 bits, the lowest first, in registers and 41 KiB of shared memory; then the runs. One launch in place of five.
template <class Key, class Index>
__global__ void __launch_bounds__(few_threads)
    group_few_kernel(Index const* keys_in, int bits, int digit_bits, GroupingView<Index> out) {
  constexpr int items = few_keys<Key> / few_threads;
  __shared__ FewShared<Key> shared;
  unsigned const warps = blockDim.x / warp_lanes, mask = (1u << digit_bits) - 1;
  Tile const tile{0, out.count, static_cast<int>((out.count + blockDim.x - 1) / blockDim.x)};
  Key keys[items];
  std::uint32_t positions[items], places[items];
  for (int i = 0; i < items; ++i) {
    std::uint64_t const p = tile.position(i);
    keys[i] = i < tile.items && p < tile.end ? static_cast<Key>(keys_in[p]) : Key{0};
    positions[i] = static_cast<std::uint32_t>(p);
  }
  for (int shift = 0; shift < bits; shift += digit_bits) {
    for (unsigned k = threadIdx.x; k < (mask + 1) * warps; k += blockDim.x) shared.counters[k] = 0;
    __syncthreads();
    rank_in_warp(keys, tile, shift, mask, shared.counters, places);
    __syncthreads();
    places_from_counts(shared.counters, (mask + 1) * warps, shared.sums);
    __syncthreads();
    for (int i = 0; i < items; ++i)
      places[i] += shared.counters[(static_cast<unsigned>(keys[i] >> shift) & mask) * warps + warp_number()];
    exchange(shared.positions, tile, places, positions);
    exchange(shared.keys, tile, places, keys);
  }
  for (int i = 0; i < items; ++i)
    if (i < tile.items && tile.position(i) < tile.end) shared.keys[tile.position(i)] = keys[i];
  __syncthreads();

  auto const key_at = [&](std::uint64_t p) { return shared.keys[p]; };
  std::uint32_t heads[items], total = 0;
  std::uint32_t const count = find_heads(tile, key_at, heads);
  std::uint32_t before = block_prefix(lane_number() == 0 ? count : 0, shared.sums, total);
  before = __shfl_sync(all_lanes, before, 0);
  emit_runs(tile, heads, before, key_at, [&](int i, std::uint64_t) { return positions[i]; }, out);
  if (threadIdx.x == 0) {
    *out.distinct = total;
    out.offsets[total] = out.count;
  }
}

// Bits of the largest key below `bound`: what the sorts look at, and no more.
inline int significant_bits(std::int64_t bound) {
  return bound > 1 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bound - 1))) : 0;
}

// Where the scratch of a large grouping lies in one block of memory.
template <class Key>
struct SortPlan {
  std::size_t keys[2], positions[2], tiles, sort;

  // Of n keys, each part at a multiple of 256 bytes; what CUB wants comes last.
  explicit SortPlan(std::uint64_t n) {
    std::size_t at = 0;
    auto const take = [&at](std::size_t size) {
      std::size_t const here = at;
      at += (size + device_alignment - 1) / device_alignment * device_alignment;
      return here;
    };
    for (std::size_t& part : keys) part = take(n * sizeof(Key));
    for (std::size_t& part : positions) part = take(n * sizeof(std::uint32_t));
    tiles = take(ceil_div(n, tile_keys) * sizeof(std::uint32_t));
    sort = at;
  }
  // How many bytes all parts have. CUB is asked for its own. Throws Error (device).
  static std::size_t bytes(std::uint32_t n, int bits) {
    std::size_t sort_bytes = 0;
    cub::DoubleBuffer<Key> no_keys{nullptr, nullptr};
    cub::DoubleBuffer<std::uint32_t> no_positions{nullptr, nullptr};
    check(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, no_keys, no_positions, n, 0, bits),
          "DeviceRadixSort::SortPairs");
    return SortPlan{n}.sort + sort_bytes;
  }
};

// Many keys: numbered, sorted by CUB, the runs of every tile counted, the counts summed, the groups written. `scratch` has
// the bytes of a SortPlan, of which CUB is told that they are enough: to ask once more how many takes the host long.
template <class Key, class Index>
void group_many(cudaStream_t stream, Index const* keys, int bits, GroupingView<Index> const& out, std::byte* scratch) {
  std::uint64_t const n = out.count;
  SortPlan<Key> const plan{n};
  auto const part = [&]<class T>(std::size_t at, T) { return reinterpret_cast<T*>(scratch + at); };
  cub::DoubleBuffer<Key> sorted{part(plan.keys[0], Key{}), part(plan.keys[1], Key{})};
  cub::DoubleBuffer<std::uint32_t> order{part(plan.positions[0], 0u), part(plan.positions[1], 0u)};
  std::uint32_t* const tile_runs = part(plan.tiles, 0u);
  auto const tiles = static_cast<unsigned>(ceil_div(n, tile_keys));
  launch(stream, grid_for(ceil_div(n, block_threads)), block_threads, 0, number_keys_kernel<Key, Index>, keys, n,
         sorted.Current(), order.Current());
  std::size_t enough = std::numeric_limits<std::size_t>::max();
  if (bits > 0)
    check(cub::DeviceRadixSort::SortPairs(scratch + plan.sort, enough, sorted, order, out.count, 0, bits, stream),
          "DeviceRadixSort::SortPairs");
  launch(stream, tiles, block_threads, 0, count_runs_kernel<Key>, sorted.Current(), n, tile_runs);
  launch(stream, 1, 1024, 0, sum_tiles_kernel<1024>, tile_runs, tiles, out.distinct);
  launch(stream, tiles, block_threads, 0, emit_groups_kernel<Key, Index>, sorted.Current(), order.Current(), tile_runs, out);
}

// Few keys, by the kernel of one block: digits are of equal width, and as few as can be.
template <class Key, class Index>
void group_few(cudaStream_t stream, Index const* keys, int bits, GroupingView<Index> const& out) {
  int const passes = (bits + most_digit_bits - 1) / most_digit_bits;
  int const digit_bits = passes > 0 ? (bits + passes - 1) / passes : 1;
  auto const threads = std::clamp<unsigned>((out.count + warp_lanes - 1) / warp_lanes * warp_lanes, warp_lanes, few_threads);
  launch(stream, 1, threads, 0, group_few_kernel<Key, Index>, keys, bits, digit_bits, out);
}

// Calls f with a value of the type of the sort keys.
template <class F>
decltype(auto) with_sort_key(std::int64_t bound, F const& f) {
  if (significant_bits(bound) <= 32) return f(std::uint32_t{});
  return f(std::uint64_t{});
}

}  // namespace detail

// Bytes of scratch that grouping up to n keys in [0, bound) takes; 0 for few. Throws Error (device).
inline std::size_t group_keys_scratch_bytes(std::uint64_t n, std::int64_t bound) {
  return detail::with_sort_key(bound, [&]<class Key>(Key) {
    if (n <= detail::few_keys<Key>) return std::size_t{0};
    return detail::SortPlan<Key>::bytes(static_cast<std::uint32_t>(n), detail::significant_bits(bound));
  });
}

// Groups out.count keys, all in [0, bound), by value, in the order of a stable sort. `scratch`, aligned to 256 bytes, has
// group_keys_scratch_bytes(out.count, bound) of them. A key outside the bound makes wrong groups, but no stray access.
// One launch for few keys (8192, or 4096 where keys need more than 32 bits), four and those of the sort for more.
template <class Index>
void group_keys(cudaStream_t stream, Index const* keys, std::int64_t bound, GroupingView<Index> const& out, void* scratch) {
  static_assert(std::is_same_v<Index, std::int32_t> || std::is_same_v<Index, std::int64_t>);
  int const bits = detail::significant_bits(bound);
  detail::with_sort_key(bound, [&]<class Key>(Key) {
    if (out.count <= detail::few_keys<Key>) detail::group_few<Key>(stream, keys, bits, out);
    else detail::group_many<Key>(stream, keys, bits, out, static_cast<std::byte*>(scratch));
  });
}

}  // namespace parallax::device

namespace parallax {

template <class Index>
void RowOps<CudaSpace>::group_keys(Index const* keys, std::int64_t bound, device::GroupingView<Index> const& out) const {
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), device::group_keys_scratch_bytes(out.count, bound)};
  device::group_keys(stream(), keys, bound, out, scratch.data());
}

}  // namespace parallax
