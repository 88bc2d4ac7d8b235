// The communicators' suite on real devices, with NCCL itself: ranks are threads, all on one device, or one on each for NCCL.
#include "../communicators.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

namespace {

template <class Model>
int wrong(Model const& model, char const* what, bool failures) {
  try {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) parallax_conformance::check_device_exchanges(model, seed);
    if (failures) parallax_conformance::check_device_failures(model);
  } catch (std::exception const& error) {
    std::printf("%s, %d ranks: WRONG: %s\n", what, model.ranks, error.what());
    return 1;
  }
  std::printf("%s, %d ranks: right\n", what, model.ranks);
  return 0;
}

// Sums by NCCL of what the ranks bring.
int wrong_sums(int ranks) {
  constexpr std::size_t count = 1000;
  try {
    communicators::NcclThreads{ranks}.run(std::chrono::seconds{60}, [](auto& comm) {
      auto const queue = comm.queue();
      std::vector<float> mine(count), sum(count);
      for (std::size_t i = 0; i < count; ++i) mine[i] = static_cast<float>(comm.rank() * 1000 + static_cast<int>(i));
      parallax::DeviceBuffer<float> data{queue.memory, queue.stream, count};
      data.copy_from(mine.data(), count);
      auto request = comm.iallreduce_device(0, static_cast<float const*>(data.data()), data.data(), count);
      parallax_conformance::complete(comm, request);
      data.copy_to(sum.data(), count);
      comm.synchronize();
      int const ranks_here = comm.size();
      for (int i = 0; i < static_cast<int>(count); ++i)
        parallax_conformance::require(
            sum[static_cast<std::size_t>(i)] == static_cast<float>(1000 * ranks_here * (ranks_here - 1) / 2 + i * ranks_here),
            "a sum is wrong");
    });
  } catch (std::exception const& error) {
    std::printf("sums by NCCL, %d ranks: WRONG: %s\n", ranks, error.what());
    return 1;
  }
  std::printf("sums by NCCL, %d ranks: right\n", ranks);
  return 0;
}

}  // namespace

int main() {
  int devices = 0, version = 0;
  ncclGetVersion(&version);
  cudaError_t const status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: NCCL %d is linked, but no device answers: %s\n", version,
                status == cudaSuccess ? "there are none" : cudaGetErrorString(status));
    return 77;
  }
  std::printf("NCCL %d, %d devices\n", version, devices);
  int const ranks = std::min(devices, 4);  // NCCL wants a device for each
  return wrong(communicators::StagedThreads{4}, "staged", true) + wrong(communicators::CudaThreads{4}, "threads", true) +
                 wrong(communicators::NcclThreads{ranks}, "NCCL", false) +
                 wrong(communicators::NcclThreads{ranks, true, false}, "NCCL, not blocking", false) + wrong_sums(ranks) >
             0
             ? 1
             : 0;
}
