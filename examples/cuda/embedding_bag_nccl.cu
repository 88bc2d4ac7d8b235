// The trainer of embedding_bag.cuh over NCCL: one MPI process a device. Argument: steps (60).
#include "embedding_bag.cuh"

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "parallax/comm/mpi.hpp"
#include "parallax/comm/nccl/run.hpp"

namespace px = parallax;

namespace {

// Rank k of a host is on its device k; -1 where there is none.
int own_device(px::MpiCommunicator const& host, int devices) {
  auto const hosts = px::mpi_hosts(host);
  auto const self = hosts.begin() + host.rank();
  auto const device = static_cast<int>(std::count(hosts.begin(), self, *self));
  return device < devices ? device : -1;
}

int run(int argc, char** argv) {
  px::MpiEnvironment mpi{argc, argv};
  px::MpiCommunicator host;
  int const steps = argc > 1 ? std::atoi(argv[1]) : 60;
  int devices = 0;
  int const device = embedding_bag::device_answers(devices) ? own_device(host, devices) : -1;
  auto const all = px::allgather(host, device);
  if (*std::min_element(all.begin(), all.end()) < 0) {
    if (device < 0 && devices > 0) std::printf("SKIPPED: rank %d finds %d devices, all taken\n", host.rank(), devices);
    return 77;
  }
  double loss = 0;
  px::run_nccl(host, device,
               [&](px::NcclCommunicator<px::MpiCommunicator>& world) { loss = embedding_bag::train(world, steps); });
  return embedding_bag::learnt(loss, steps) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "embedding_bag_nccl: %s\n", error.what());
    return 1;
  }
}
