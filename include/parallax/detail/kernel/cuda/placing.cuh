// Places of a table's rows, by ids on a CUDA device, and the rows behind keys. Pulls and updates of ids out of the host's sight
// call the first, through RowOps<CudaSpace>; the keys are then grouped. Tables with all rows on every rank call the other.
#pragma once

#include <cstdint>

#include "parallax/detail/core/on_device.hpp"
#include "parallax/detail/kernel/cuda/groups.cuh"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/runs.cuh"

namespace parallax::inline v0_2::device {

namespace detail {

// Grid: threads stride over the ids. Memory: ids are read, the bases of their owners, keys written; of a stack also the
// beginnings of bags, on the way of a binary search, and the first rows of the table.
template <class Id, class Layout, class Index>
__global__ void __launch_bounds__(block_threads)
    place_ids_kernel(Id const* ids, std::uint64_t n, Layout layout, std::int64_t all, Index const* bases,
                     StackView<Index> stack, bool hashes, Index* keys) {
  for (std::uint64_t i = thread_number(); i < n; i += thread_count()) {
    std::int64_t first = 0, rows = all;
    if (stack.tables > 1) {
      std::uint32_t const table = last_not_above(
          stack.tables, i, [&](std::uint32_t t) { return std::uint64_t{stack.begins[std::uint64_t{t} * stack.bags]}; });
      first = static_cast<std::int64_t>(stack.firsts[table]);
      rows = static_cast<std::int64_t>(stack.firsts[table + 1]) - first;
    }
    auto const id = static_cast<std::uint64_t>(ids[i]);
    bool const inside = id < static_cast<std::uint64_t>(rows);
    Index key = static_cast<Index>(all);
    if (inside || (hashes && rows > 0)) {
      auto const at = layout.locate(first + (inside ? static_cast<std::int64_t>(id) : parallax::detail::hashed_row(id, rows)));
      key = static_cast<Index>(bases[at.owner] + at.local);
    }
    keys[i] = key;
  }
}

// Grid: threads stride over the offsets. Memory: offsets are read, the beginnings of bags written, and behind them a number by
// each block.
template <class Offset>
__global__ void __launch_bounds__(block_threads)
    take_offsets_kernel(Offset const* offsets, std::uint64_t bags, std::uint64_t n, std::uint32_t* begins) {
  __shared__ std::uint32_t sums[warp_lanes];
  std::uint32_t wrong = 0, all_wrong = 0;
  for (std::uint64_t b = thread_number(); b <= bags; b += thread_count()) {
    auto const offset = static_cast<std::uint64_t>(offsets[b]);
    std::uint64_t const next = b < bags ? static_cast<std::uint64_t>(offsets[b + 1]) : n;
    bool const right = offset <= n && (b > 0 || offset == 0) && (b < bags ? offset <= next : offset == n);
    begins[b] = static_cast<std::uint32_t>(offset <= n ? offset : n);
    wrong += !right;
  }
  block_prefix(wrong, sums, all_wrong);
  if (threadIdx.x == 0) begins[bags + 1 + blockIdx.x] = all_wrong;
}

// Grid: threads stride over the keys. Memory: keys are read, the bases on the way of a binary search, rows written.
template <class Layout, class Index>
__global__ void __launch_bounds__(block_threads)
    rows_of_keys_kernel(Index const* keys, Count count, Layout layout, Index const* bases, Index* rows) {
  std::uint64_t const n = count();
  for (std::uint64_t i = thread_number(); i < n; i += thread_count()) {
    auto const owner = static_cast<int>(
        last_not_above(static_cast<std::uint32_t>(layout.owners()), keys[i], [&](std::uint32_t o) { return bases[o]; }));
    rows[i] = static_cast<Index>(layout.global_row(owner, static_cast<std::int64_t>(keys[i] - bases[owner])));
  }
}

// Grid: threads stride over the places. Memory: keys are read, places written.
template <class Index>
__global__ void __launch_bounds__(block_threads)
    take_keys_kernel(Index const* keys, std::uint64_t most, std::uint32_t const* count, Index none, Index* out) {
  std::uint64_t const n = *count;
  for (std::uint64_t i = thread_number(); i < most; i += thread_count()) out[i] = i < n ? keys[i] : none;
}

}  // namespace detail

// Sets keys[i] = bases[owner] + local row of ids[i], by the layout. ids[i] is a number in the table of the stack whose bags
// have position i. Of an id outside its table, the row chosen there by its hash (`hashes`, of a table with rows), else the
// number of all rows. All lies on the device. Throws Error (device).
template <class Id, class Layout, class Index>
void place_ids(cudaStream_t stream, Id const* ids, std::uint64_t n, Layout const& layout, Index const* bases,
               StackView<Index> const& stack, bool hashes, Index* keys) {
  if (n == 0) return;
  detail::launch_over(stream, n, block_threads, detail::place_ids_kernel<Id, Layout, Index>, ids, n, layout, layout.rows(),
                      bases, stack, hashes, keys);
}

}  // namespace parallax::device
