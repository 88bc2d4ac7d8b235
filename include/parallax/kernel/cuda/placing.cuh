// Where a table's rows are, by ids on a CUDA device, and which rows keys stand for. Pulls and updates of ids that the host cannot
// read call the first, through RowOps<CudaSpace>; the keys are then grouped. Tables of which every rank has all rows call the other.
#pragma once

#include <cstdint>

#include "parallax/core/on_device.hpp"
#include "parallax/kernel/cuda/launch.cuh"
#include "parallax/kernel/cuda/packs.cuh"

namespace parallax::device {

namespace detail {

// Grid: threads stride over the ids. Memory: ids are read, the bases of their owners, keys written.
template <class Id, class Layout, class Index>
__global__ void __launch_bounds__(block_threads)
    place_ids_kernel(Id const* ids, std::uint64_t n, Layout layout, std::int64_t rows, Index const* bases, bool hashes,
                     Index* keys) {
  for (std::uint64_t i = thread_number(); i < n; i += thread_count()) {
    auto const id = static_cast<std::uint64_t>(ids[i]);
    bool const inside = id < static_cast<std::uint64_t>(rows);
    keys[i] = static_cast<Index>(rows);
    if (!inside && !hashes) continue;
    auto const at = layout.locate(inside ? static_cast<std::int64_t>(id) : parallax::detail::hashed_row(id, rows));
    keys[i] = static_cast<Index>(bases[at.owner] + at.local);
  }
}

// Grid: threads stride over the keys. Memory: keys are read, the bases on the way of a binary search, rows written.
template <class Layout, class Index>
__global__ void __launch_bounds__(block_threads)
    rows_of_keys_kernel(Index const* keys, Count count, Layout layout, Index const* bases, Index* rows) {
  std::uint64_t const n = count();
  for (std::uint64_t i = thread_number(); i < n; i += thread_count()) {
    int owner = 0;  // the last one whose first key is not above the key
    for (int left = layout.owners() - 1; left > 0;) {
      int const step = (left + 1) / 2;
      bool const there = bases[owner + step] <= keys[i];
      owner += there ? step : 0;
      left = there ? left - step : step - 1;
    }
    rows[i] = static_cast<Index>(layout.global_row(owner, static_cast<std::int64_t>(keys[i] - bases[owner])));
  }
}

}  // namespace detail

// rows[i] = the row of the table that keys[i] stands for: the inverse of place_ids, of keys below the number of rows. There are
// `most` keys, or where `count` is not null *count of them.
template <class Layout, class Index>
void rows_of_keys(cudaStream_t stream, Index const* keys, std::uint64_t most, std::uint32_t const* count, Layout const& layout,
                  Index const* bases, Index* rows) {
  launch(stream, detail::grid_for(detail::ceil_div(most, block_threads)), block_threads, 0,
         detail::rows_of_keys_kernel<Layout, Index>, keys, detail::Count{most, count}, layout, bases, rows);
}

// keys[i] = bases[owner] + local row of ids[i], as the layout says; of an id outside the table that of the row that its hash
// chooses (`hashes`, of a table with rows), else the number of rows.
template <class Id, class Layout, class Index>
void place_ids(cudaStream_t stream, Id const* ids, std::uint64_t n, Layout const& layout, Index const* bases, bool hashes,
               Index* keys) {
  if (n == 0) return;
  launch(stream, detail::grid_for(detail::ceil_div(n, block_threads)), block_threads, 0,
         detail::place_ids_kernel<Id, Layout, Index>, ids, n, layout, layout.rows(), bases, hashes, keys);
}

}  // namespace parallax::device
