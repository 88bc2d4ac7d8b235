// Contents of the library parallax::compiled_cuda for operations on a device: all those without an optimizer, of float and
// double, of tables indexed by 32 or 64 bits. kernel/cuda.cuh includes it if PARALLAX_COMPILED_CUDA is defined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "parallax/detail/core/view.hpp"
#include "parallax/detail/partition/block.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/detail/partition/hash.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"

// `template` in the one source that has them, else a promise that they are there.
#if !defined(PARALLAX_KERNELS_ONCE)
#define PARALLAX_KERNELS_ONCE extern template
#endif

namespace parallax::inline v0_2 {

#define PARALLAX_KERNELS_OF_TABLE(T, Index)                                                                               \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::coalesce<T, Index>(RowsView<T const>, device::GroupingView<Index> const&, \
                                                                   std::size_t, std::size_t, T*) const;                   \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::gather_rows<T, Index const>(RowsView<T const>, std::span<Index const>,    \
                                                                            Directory<Index>, T*) const;                  \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::scatter_rows<T, Index const>(RowsView<T>, std::span<Index const>,         \
                                                                             Directory<Index>, T const*) const;           \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::place_in_bags<T, Index>(                                                  \
      std::span<std::uint32_t const>, device::GroupingView<Index> const&, std::uint32_t*, std::uint32_t*, T*,             \
      std::span<std::uint32_t const>) const;
#define PARALLAX_KERNELS_OF_SCALAR(T)                                                                                         \
  PARALLAX_KERNELS_OF_TABLE(T, std::int32_t)                                                                                  \
  PARALLAX_KERNELS_OF_TABLE(T, std::int64_t)                                                                                  \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::gather_rows<T, std::uint32_t const>(                                          \
      RowsView<T const>, std::span<std::uint32_t const>, Directory<std::uint32_t>, T*) const;                                 \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::fill<T>(T*, std::size_t, T) const;                                            \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::add_to<T>(T*, T const*, std::int64_t) const;                                  \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::scale_down<T>(T*, std::int64_t, T) const;                                     \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::scale_rows_down<T>(T*, std::int64_t, std::span<std::uint32_t const>) const;   \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::scale_counted_rows_down<T>(T*, std::int64_t, std::int64_t) const;             \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::sum_terms<T>(RowTerms<T> const&, std::uint32_t const*, std::uint32_t const*,  \
                                                             std::size_t, std::size_t, T*, std::uint32_t const*, std::size_t) \
      const;                                                                                                                  \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::first_non_finite<T>(RowsView<T const>, NonFiniteElement*) const;              \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::sum_of_row_squares<T>(RowsView<T const>, double*) const;
PARALLAX_KERNELS_OF_SCALAR(float)
PARALLAX_KERNELS_OF_SCALAR(double)
#undef PARALLAX_KERNELS_OF_TABLE
#undef PARALLAX_KERNELS_OF_SCALAR

#define PARALLAX_KERNELS_OF_LAYOUT(Layout, Index)                                                                            \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::place_ids(std::int32_t const*, std::size_t, Layout const&, Index const*,     \
                                                          device::StackView<Index> const&, bool, Index*) const;              \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::place_ids(std::int64_t const*, std::size_t, Layout const&, Index const*,     \
                                                          device::StackView<Index> const&, bool, Index*) const;              \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::rows_of_keys(Index const*, std::size_t, std::uint32_t const*, Layout const&, \
                                                             Index const*, Index*) const;
#define PARALLAX_KERNELS_OF_INDEX(Index)                                                                                       \
  PARALLAX_KERNELS_OF_LAYOUT(Cyclic::Layout, Index)                                                                            \
  PARALLAX_KERNELS_OF_LAYOUT(Hash::Layout, Index)                                                                              \
  PARALLAX_KERNELS_OF_LAYOUT(Block::Layout, Index)                                                                             \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::group_keys(Index const*, std::int64_t, device::GroupingView<Index> const&)     \
      const;                                                                                                                   \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::cut_groups(device::GroupingView<Index> const&, Index const*, std::size_t,      \
                                                           std::size_t, std::size_t, std::int64_t,                             \
                                                           std::span<std::uint32_t const>, std::uint32_t*) const;              \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::pad_groups(device::GroupingView<Index> const&, std::uint32_t const*,           \
                                                           device::Padding const&, std::int64_t,                               \
                                                           device::GroupingView<Index> const&, device::PaddingTally*) const;   \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::take_keys(Index const*, std::size_t, std::uint32_t const*, Index, Index*)      \
      const;                                                                                                                   \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::drop_padding(device::GroupingView<Index> const&, std::int64_t) const;          \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::run_lengths(device::GroupingView<Index> const&, std::size_t, std::size_t,      \
                                                            std::uint32_t*) const;                                             \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::sum_counts(std::span<std::uint32_t const>, device::GroupingView<Index> const&, \
                                                           std::size_t, std::size_t, std::uint32_t*) const;                    \
  PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::take_offsets(Index const*, std::size_t, std::size_t, std::uint32_t*) const;
PARALLAX_KERNELS_OF_INDEX(std::int32_t)
PARALLAX_KERNELS_OF_INDEX(std::int64_t)
#undef PARALLAX_KERNELS_OF_LAYOUT
#undef PARALLAX_KERNELS_OF_INDEX

PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::copy_all(device::CopyList const&) const;
PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::put_bytes(device::ByteList const&, std::byte*) const;
PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::fill(std::uint32_t*, std::size_t, std::uint32_t) const;
PARALLAX_KERNELS_ONCE void RowOps<CudaSpace>::fill(std::int64_t*, std::size_t, std::int64_t) const;

}  // namespace parallax
