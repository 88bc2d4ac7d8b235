// Instantiations of the kernels that variables on a device need beside the row operations.
#include "parallax/detail/kernel/cuda/row_ops.cuh"

using Ops = parallax::RowOps<parallax::CudaSpace>;

#define OPS(T)                                                                                              \
  template void Ops::fill(T*, std::size_t, T) const;                                                        \
  template void Ops::scale_rows_down(T*, std::int64_t, std::span<std::uint32_t const>) const;               \
  template void Ops::scale_counted_rows_down(T*, std::int64_t, std::int64_t) const;                         \
  template void Ops::sum_term_runs(parallax::RowTerms<T> const&, std::span<std::uint32_t const>, T*) const; \
  template void Ops::first_non_finite(parallax::RowsView<T const>, parallax::NonFiniteElement*) const;      \
  template void Ops::sum_of_row_squares(parallax::RowsView<T const>, double*) const;
OPS(float)
OPS(double)
#define BAGS(T, Index)                                                                                           \
  template void Ops::place_in_bags(std::span<std::uint32_t const>, parallax::device::GroupingView<Index> const&, \
                                   std::uint32_t*, std::uint32_t*, T*, std::span<std::uint32_t const>) const;
BAGS(float, std::int64_t)
BAGS(double, std::int32_t)
template void parallax::device::add_blocks<2>(cudaStream_t, double*, std::uint64_t, std::uint64_t, double*);
template void parallax::device::convert(cudaStream_t, parallax::BFloat16 const*, std::uint64_t, float*);
template void parallax::device::convert(cudaStream_t, float const*, std::uint64_t, parallax::Float16*);
template void Ops::put_bytes(parallax::device::ByteList const&, std::byte*) const;
template void Ops::widen_rows(parallax::RowsView<parallax::BFloat16 const>, std::span<std::int64_t const>,
                              parallax::Directory<std::int64_t>, float*) const;
template void Ops::widen_rows(parallax::RowsView<parallax::Float16 const>, std::span<std::int32_t const>,
                              parallax::Directory<std::int32_t>, float*) const;
