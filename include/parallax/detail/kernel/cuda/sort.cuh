// Keys grouped by value on a CUDA device: one radix sort over the significant bits, in one block for few keys, CUB's for
// many. Plans of ids on a device are made by it, through `RowOps<CudaSpace>::group_keys`.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <limits>
#include <type_traits>

#include "parallax/core/error.hpp"
#include "parallax/detail/kernel/cuda/groups.cuh"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/kernel/cuda/row_ops.hpp"

namespace parallax::inline v0_2::device {
namespace detail {

// The widest digit of the sort in one block, with counters that fit its shared memory; and the most threads of the block.
inline constexpr int most_digit_bits = 7;
inline constexpr std::uint32_t few_threads = 1024;
template <class Key>
inline constexpr std::uint32_t few_keys = 32 * 1024 / sizeof(Key);  // in 32 KiB of shared memory: 8192 or 4096

// The counters of a digit for two warps, in a word of shared memory.
struct alignas(4) TwoCounters {
  std::uint16_t of[2];
};
// Returns the number of TwoCounters for a digit of so many warps: an odd number, so different digits are in different banks.
PARALLAX_HOST_DEVICE constexpr unsigned counter_words(unsigned warps) { return (warps + 1) / 2 | 1u; }

// Returns this warp's counter of a digit.
__device__ inline std::uint16_t& counter_of(TwoCounters* counters, unsigned digit) {
  return counters[digit * counter_words(blockDim.x / warp_lanes) + warp_number() / 2].of[warp_number() % 2];
}

// A block's exchange of keys and positions, and its counters of digits: one a digit and warp.
template <class Key>
struct FewShared {
  union {
    Key keys[few_keys<Key>];
    std::uint16_t positions[few_keys<Key>];
  };
  TwoCounters counters[(1 << most_digit_bits) * counter_words(few_threads / warp_lanes)];
  std::uint32_t sums[warp_lanes];
};

// Returns a mask: the warp's lanes `there` with this digit. A vote for each bit, as __match_any_sync takes a turn for a digit.
__device__ inline unsigned lanes_alike(unsigned digit, bool there) {
  unsigned alike = __ballot_sync(all_lanes, there);
  for (int bit = 0; bit < most_digit_bits; ++bit) {
    unsigned const own = digit >> bit & 1, set = __ballot_sync(all_lanes, own != 0);
    alike &= own != 0 ? set : ~set;
  }
  return alike;
}

// Finds, for each of a thread's keys, in `ranks`, the number of its warp's keys with an equal digit before it; counts them all.
template <class Key, int items>
__device__ void rank_in_warp(Key const (&keys)[items], Tile<std::uint32_t> const& tile, int shift, unsigned mask,
                             TwoCounters* counters, std::uint32_t (&ranks)[items]) {
  for (int i = 0; i < items; ++i) {
    if (i >= tile.items) continue;
    bool const there = tile.position(i) < tile.end;
    unsigned const digit = static_cast<unsigned>(keys[i] >> shift) & mask;
    unsigned const alike = lanes_alike(digit, there);
    int const leader = there ? __ffs(static_cast<int>(alike)) - 1 : static_cast<int>(lane_number());
    std::uint32_t before = 0;
    if (there && static_cast<int>(lane_number()) == leader) {
      std::uint16_t& counter = counter_of(counters, digit);
      before = counter;
      counter = static_cast<std::uint16_t>(before + static_cast<unsigned>(__popc(alike)));
    }
    __syncwarp();
    ranks[i] = __shfl_sync(all_lanes, before, leader) + static_cast<std::uint32_t>(__popc(alike & lanes_below()));
  }
}

// Turns the counts, digit by digit and within a digit warp by warp, into first places.
__device__ inline void places_from_counts(TwoCounters* counters, unsigned words, std::uint32_t* sums) {
  unsigned const each = (words + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
  unsigned const last = first + each < words ? first + each : words;
  std::uint32_t own = 0, total = 0;
  for (unsigned k = first; k < last; ++k) {
    TwoCounters const counts = counters[k];
    own += counts.of[0] + std::uint32_t{counts.of[1]};
  }
  std::uint32_t place = block_prefix(own, sums, total);
  for (unsigned k = first; k < last; ++k) {
    TwoCounters const counts = counters[k];
    std::uint32_t const second = place + counts.of[0];
    counters[k] = {{static_cast<std::uint16_t>(place), static_cast<std::uint16_t>(second)}};
    place = second + counts.of[1];
  }
}

// Sends every thread's items to their places, and gets the items at its own places back.
template <class Item, class Value, int items>
__device__ void exchange(Item* shared, Tile<std::uint32_t> const& tile, std::uint32_t const (&places)[items],
                         Value (&held)[items]) {
  for (int i = 0; i < items; ++i)
    if (i < tile.items && tile.position(i) < tile.end) shared[places[i]] = static_cast<Item>(held[i]);
  __syncthreads();
  for (int i = 0; i < items; ++i)
    if (i < tile.items && tile.position(i) < tile.end) held[i] = shared[tile.position(i)];
  __syncthreads();
}

// Grid: one block, for all keys, of at most 1024 threads with at most 8 keys each, of 8 bytes 4. A stable sort by digits of at
// most 7 bits, the lowest first, in registers and 42 KiB of shared memory; then the runs. One launch; many keys take over ten.
template <class Key, class Index>
__global__ void __launch_bounds__(few_threads)
    group_few_kernel(Index const* keys_in, int bits, int digit_bits, GroupingView<Index> out) {
  constexpr int items = few_keys<Key> / few_threads;
  __shared__ FewShared<Key> shared;
  unsigned const mask = (1u << digit_bits) - 1, words = counter_words(blockDim.x / warp_lanes);
  Tile<std::uint32_t> const tile{0, out.count, static_cast<int>((out.count + blockDim.x - 1) / blockDim.x)};
  Key keys[items];
  std::uint32_t positions[items], places[items];
  for (int i = 0; i < items; ++i) {
    positions[i] = tile.position(i);
    keys[i] = i < tile.items && positions[i] < tile.end ? static_cast<Key>(keys_in[positions[i]]) : Key{0};
  }
  for (int shift = 0; shift < bits; shift += digit_bits) {
    for (unsigned k = threadIdx.x; k < (mask + 1) * words; k += blockDim.x) shared.counters[k] = {};
    __syncthreads();
    rank_in_warp(keys, tile, shift, mask, shared.counters, places);
    __syncthreads();
    places_from_counts(shared.counters, (mask + 1) * words, shared.sums);
    __syncthreads();
    for (int i = 0; i < items; ++i) places[i] += counter_of(shared.counters, static_cast<unsigned>(keys[i] >> shift) & mask);
    exchange(shared.positions, tile, places, positions);
    exchange(shared.keys, tile, places, keys);
  }
  for (int i = 0; i < items; ++i)
    if (i < tile.items && tile.position(i) < tile.end) shared.keys[tile.position(i)] = keys[i];
  __syncthreads();

  std::uint32_t heads[items], total = 0;
  std::uint32_t const count = find_heads(tile, shared.keys, keys, heads);
  std::uint32_t before = block_prefix(lane_number() == 0 ? count : 0, shared.sums, total);
  before = __shfl_sync(all_lanes, before, 0);
  emit_runs(tile, heads, before, keys, positions, out);
  if (threadIdx.x == 0) {
    *out.distinct = total;
    out.offsets[total] = out.count;
  }
}

// Returns the bits of the largest key below `bound`, all that the sorts look at.
inline int significant_bits(std::int64_t bound) {
  return bound > 1 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bound - 1))) : 0;
}

// The parts of a large grouping's scratch in one block of memory, each by its beginning, in bytes.
template <class Key>
struct SortPlan {
  std::size_t keys[2], positions[2], runs, sort;

  // Plans for n keys, each part at a multiple of 256 bytes; CUB's comes last.
  explicit SortPlan(std::uint64_t n) {
    std::size_t at = 0;
    auto const take = [&at](std::size_t size) {
      std::size_t const here = at;
      at += (size + device_alignment - 1) / device_alignment * device_alignment;
      return here;
    };
    for (std::size_t& part : keys) part = take(n * sizeof(Key));
    for (std::size_t& part : positions) part = take(n * sizeof(std::uint32_t));
    runs = take(most_stretches * sizeof(std::uint32_t));
    sort = at;
  }
  // Returns the bytes of all parts. CUB is asked for its own. Throws Error (device).
  static std::size_t bytes(std::uint32_t n, int bits) {
    std::size_t sort_bytes = 0;
    cub::DoubleBuffer<Key> no_keys{nullptr, nullptr};
    cub::DoubleBuffer<std::uint32_t> no_positions{nullptr, nullptr};
    check(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, no_keys, no_positions, n, 0, bits),
          "DeviceRadixSort::SortPairs");
    return SortPlan{n}.sort + sort_bytes;
  }
};

// Groups many keys: numbered, sorted by CUB, the runs of every stretch counted, the groups written. `scratch` has the bytes of
// a SortPlan. CUB is told that they are enough: asking once more takes the host long. Throws Error (device).
template <class Key, class Index>
void group_many(cudaStream_t stream, Index const* keys, int bits, GroupingView<Index> const& out, std::byte* scratch) {
  std::uint64_t const n = out.count;
  SortPlan<Key> const plan{n};
  auto const part = [&]<class T>(std::size_t at, T) { return reinterpret_cast<T*>(scratch + at); };
  cub::DoubleBuffer<Key> sorted{part(plan.keys[0], Key{}), part(plan.keys[1], Key{})};
  cub::DoubleBuffer<std::uint32_t> order{part(plan.positions[0], 0u), part(plan.positions[1], 0u)};
  std::uint32_t* const runs = part(plan.runs, 0u);
  launch_over(stream, n, block_threads, number_keys_kernel<Key, Index>, keys, n, sorted.Current(), order.Current());
  std::size_t enough = std::numeric_limits<std::size_t>::max();
  if (bits > 0)
    check(cub::DeviceRadixSort::SortPairs(scratch + plan.sort, enough, sorted, order, out.count, 0, bits, stream),
          "DeviceRadixSort::SortPairs");
  auto const [stretch, blocks] = stretches_of(n);
  launch(stream, blocks, block_threads, 0, count_runs_kernel<Key>, sorted.Current(), n, stretch, runs);
  launch(stream, blocks, block_threads, 0, emit_groups_kernel<Key, Index>, sorted.Current(), order.Current(), stretch, runs,
         out);
}

// Groups few keys, by the kernel of one block: digits are of equal width, and as few as can be. Throws Error (device).
template <class Key, class Index>
void group_few(cudaStream_t stream, Index const* keys, int bits, GroupingView<Index> const& out) {
  int const passes = (bits + most_digit_bits - 1) / most_digit_bits;
  int const digit_bits = passes > 0 ? (bits + passes - 1) / passes : 1;
  constexpr std::uint32_t each = std::min(5u, few_keys<Key> / few_threads);  // of 8: the fastest on an H200
  std::uint32_t const wanted = std::max(std::min(out.count, 256u), (out.count + each - 1) / each);
  auto const threads = std::clamp<unsigned>((wanted + warp_lanes - 1) / warp_lanes * warp_lanes, warp_lanes, few_threads);
  launch(stream, 1, threads, 0, group_few_kernel<Key, Index>, keys, bits, digit_bits, out);
}

// Calls f with a value of the type of the sort keys.
template <class F>
decltype(auto) with_sort_key(std::int64_t bound, F const& f) {
  if (significant_bits(bound) <= 32) return f(std::uint32_t{});
  return f(std::uint64_t{});
}

}  // namespace detail

// Returns the bytes of scratch for grouping up to n keys in [0, bound); 0 for few. Throws Error (device).
inline std::size_t group_keys_scratch_bytes(std::uint64_t n, std::int64_t bound) {
  return detail::with_sort_key(bound, [&]<class Key>(Key) {
    if (n <= detail::few_keys<Key>) return std::size_t{0};
    return detail::SortPlan<Key>::bytes(static_cast<std::uint32_t>(n), detail::significant_bits(bound));
  });
}

// Groups out.count keys, all in [0, bound), by value, in the order of a stable sort. `scratch`, aligned to 256 bytes, has
// group_keys_scratch_bytes(out.count, bound) of them. A key outside the bound makes wrong groups, but no stray access. One
// launch for few keys (8192, or 4096 if keys need more than 32 bits), three and the sort's for more. Throws Error (device).
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

namespace parallax::inline v0_2 {

template <class Index>
void RowOps<CudaSpace>::group_keys(Index const* keys, std::int64_t bound, device::GroupingView<Index> const& out) const {
  DeviceBuffer<std::byte> scratch{queue_.memory, stream(), device::group_keys_scratch_bytes(out.count, bound)};
  device::group_keys(stream(), keys, bound, out, scratch.data());
}

}  // namespace parallax
