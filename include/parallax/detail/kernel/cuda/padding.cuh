// Groups of keys on a CUDA device, padded: as many places for each owner for any batch, so the host need not know the number of
// keys for each. Plans of tables with px::Padded call it, through RowOps<CudaSpace>.
#pragma once

#include <cstdint>

#include "parallax/detail/kernel/cuda/groups.cuh"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/placing.cuh"

namespace parallax::inline v0_2::device::detail {

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

}  // namespace parallax::device::detail
