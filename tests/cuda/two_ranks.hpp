// Two ranks that share a device, and what they bring back.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "parallax/comm/cuda_thread.hpp"
#include "parallax/kernel/cuda.cuh"

namespace emulated {

// What each of two ranks brings back from a body on a device.
template <class Result, class Body>
std::vector<Result> on_two_ranks(Body const& body) {
  std::vector<Result> results(2);
  parallax::run_cuda_threads(2, [&](parallax::CudaThreadCommunicator& world) {
    results[static_cast<std::size_t>(world.rank())] = body(world, parallax::RowOps<parallax::CudaSpace>{world.queue()});
  });
  return results;
}

inline bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace emulated
