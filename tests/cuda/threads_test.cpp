#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "deferred.hpp"
#include "parallax/detail/kernel/cuda/rows.cuh"
#include "parallax/memory/cuda.hpp"

TEST_CASE("kernels that several threads launch, each on streams of its own, run as each stream says", "[cuda][threads]") {
  constexpr int threads = 4, rounds = 30, rows = 50, width = 12;
  std::mutex mutex;
  int wrong = 0;
  std::uint64_t const first = emulated::first_seed("kernels of several threads");
  for (std::uint64_t seed = first; seed < first + 3; ++seed) {
    emulated::Deferred const deferred{seed};
    auto const work = [&](int thread) {
      parallax::CudaStream const copies, kernels;
      std::vector<float> table(rows * width), there(rows * width), out(rows * width);
      std::vector<int> indices(rows);
      for (int round = 0; round < rounds; ++round) {
        float const base = static_cast<float>(1000 * thread + round);
        for (std::size_t i = 0; i < table.size(); ++i) table[i] = base + static_cast<float>(i);
        for (int i = 0; i < rows; ++i) indices[static_cast<std::size_t>(i)] = (i * 7 + round) % rows;
        parallax::CudaEvent copied;
        parallax::device::copy(there.data(), table.data(), table.size() * sizeof(float), cudaMemcpyHostToDevice, copies.get());
        copied.record(copies.get());
        cudaStreamWaitEvent(kernels.get(), copied.get(), 0);
        parallax::RowsView<float const> const view{there.data(), rows, width};
        parallax::device::gather_rows<float, int>(kernels.get(), view, indices, {}, out.data());
        cudaStreamSynchronize(kernels.get());
        for (std::size_t i = 0; i < out.size(); ++i) {
          auto const row = static_cast<std::size_t>(indices[i / width]);
          std::lock_guard const lock{mutex};
          wrong += out[i] != table[row * width + i % width];
        }
      }
    };
    std::vector<std::jthread> all;
    for (int thread = 0; thread < threads; ++thread) all.emplace_back(work, thread);
  }
  CHECK(wrong == 0);
}
