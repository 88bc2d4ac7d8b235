// Where a table's rows are, by ids on a CUDA device. Pulls and updates of ids that the host cannot read call it first,
// through RowOps<CudaSpace>; the keys are then grouped.
#pragma once

#include <cstdint>

#include "parallax/core/on_device.hpp"
#include "parallax/kernel/cuda/launch.cuh"

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

}  // namespace detail

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
