// Instantiations of the kernels that move rows and bytes.
#include "parallax/detail/kernel/cuda/copies.cuh"
#include "parallax/detail/kernel/cuda/rows.cuh"

namespace pc = parallax::device;
using parallax::Directory;
using parallax::RowsView;

#define ROWS(T, I)                                                                                                        \
  template void pc::gather_rows<T, I>(cudaStream_t, RowsView<T const>, std::span<I const>, Directory<I>, T*,              \
                                      std::uint32_t const*);                                                              \
  template void pc::scatter_rows<T, I>(cudaStream_t, RowsView<T>, std::span<I const>, Directory<I>, T const*,             \
                                       std::uint32_t const*);                                                             \
  template void pc::scatter_add_rows<T, I>(cudaStream_t, RowsView<T>, std::span<I const>, Directory<I>, T const*,         \
                                           std::uint32_t const*);
#define ROWS_BY_ALL(T)   \
  ROWS(T, std::int32_t)  \
  ROWS(T, std::uint32_t) \
  ROWS(T, std::int64_t)
ROWS_BY_ALL(float)
ROWS_BY_ALL(double)
ROWS_BY_ALL(__nv_bfloat16)
ROWS_BY_ALL(__half)

template __global__ void pc::detail::copy_all_kernel<pc::block_threads>(pc::CopyList, unsigned);
