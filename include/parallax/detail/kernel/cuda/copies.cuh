// Many tensors copied by one kernel: gradients are packed so into one buffer before they are sent, and unpacked after. The
// `Copies` of RowOps<CudaSpace> are made by it.
#pragma once

#include <cstdint>

#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/packs.cuh"

namespace parallax::inline v0_2::device {
namespace detail {

inline constexpr std::uint64_t copy_tile = std::uint64_t{32} << 10;  // bytes for a block's one go

// Copies bytes [first, last) of one copy by all threads of a block, in units with both ends at multiples of them.
template <class Unit>
__device__ void copy_units(Copy const& copy, std::uint64_t first, std::uint64_t last) {
  auto const* const from = static_cast<Unit const*>(copy.from);
  auto* const to = static_cast<Unit*>(copy.to);
  for (std::uint64_t at = first / sizeof(Unit) + threadIdx.x; at < last / sizeof(Unit); at += blockDim.x) to[at] = from[at];
}

// Grid: blocks of a row share a copy (x strides over its tiles of 32 KiB), rows stride over the copies. Memory: everything is
// read once and written once, 16 bytes a thread if both ends are aligned to 16; bytes left over at the end one by one.
template <unsigned threads>
__global__ void __launch_bounds__(threads) copy_all_kernel(CopyList const list, unsigned blocks_each) {
  for (std::uint32_t k = blockIdx.x / blocks_each; k < list.count; k += gridDim.x / blocks_each) {
    Copy const copy = list.copies[k];
    auto const both = reinterpret_cast<std::uintptr_t>(copy.from) | reinterpret_cast<std::uintptr_t>(copy.to);
    for (std::uint64_t first = blockIdx.x % blocks_each * copy_tile; first < copy.bytes; first += blocks_each * copy_tile) {
      std::uint64_t const last = first + copy_tile < copy.bytes ? first + copy_tile : copy.bytes;
      std::uint64_t const whole = last - last % widest_access;
      if (both % 16 == 0) copy_units<Pack<std::uint32_t, 4>>(copy, first, whole);
      else if (both % 4 == 0) copy_units<std::uint32_t>(copy, first, whole);
      else copy_units<std::uint8_t>(copy, first, whole);
      copy_units<std::uint8_t>(copy, whole > first ? whole : first, last);
    }
  }
}

}  // namespace detail

// Puts a kernel into the stream for all copies of a list, none if it is empty. The list is free on return. Error (device).
inline void copy_all(cudaStream_t stream, CopyList const& list) {
  std::uint64_t const tiles = std::max<std::uint64_t>(1, detail::ceil_div(list.most_bytes, detail::copy_tile));
  unsigned const each = detail::grid_for(tiles);
  unsigned const rows = std::max(1u, detail::grid_for(tiles * list.count) / each);
  launch(stream, std::min(rows, list.count) * each, block_threads, 0, detail::copy_all_kernel<block_threads>, list, each);
}

}  // namespace parallax::device
