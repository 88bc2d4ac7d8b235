// Headers of CCCL that are read after all of parallax's names were brought to the fore: its own ::cuda stays what it is.
#include "parallax/detail/kernel/cuda/portable.cuh"

using namespace parallax;  // NOLINT: what a user may do

#include <thrust/device_vector.h>
#include <thrust/reduce.h>

#include <cuda/std/span>

#include "../catch.hpp"

TEST_CASE("CCCL's namespace cuda can be named where parallax's names are in use", "[cuda][thrust]") {
  thrust::device_vector<int> vector(4, 2);
  cuda::std::span<int> const elements{thrust::raw_pointer_cast(vector.data()), vector.size()};
  CHECK(elements.size() == 4);
  CHECK(thrust::reduce(vector.begin(), vector.end()) == 8);
}
