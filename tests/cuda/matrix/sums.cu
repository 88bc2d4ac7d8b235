// Instantiations of the kernels that sum rows.
#include "parallax/detail/kernel/cuda/sums.cuh"

namespace pc = parallax::device;
using parallax::RowsView;

#define COALESCE(V, T, Index)                                                                                   \
  template void pc::coalesce(cudaStream_t, RowsView<V const>, pc::GroupingView<Index> const&, T*, void*, std::uint32_t, \
                             std::uint32_t);
COALESCE(float, float, std::int32_t)
COALESCE(float, float, std::int64_t)
COALESCE(double, double, std::int32_t)
COALESCE(double, double, std::int64_t)
COALESCE(__nv_bfloat16, float, std::int32_t)
COALESCE(__half, __half, std::int64_t)
