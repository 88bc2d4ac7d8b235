// The communicators that carry device memory, with ranks on threads: on the emulator's device, or on devices.
#pragma once

#include <nccl.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "parallax/comm/cuda_thread.hpp"
#include "parallax/comm/nccl.hpp"
#include "parallax/comm/nccl/run.hpp"
#include "parallax/comm/staged.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/conformance/device_communicator.hpp"

namespace communicators {

namespace px = parallax;

struct StagedThreads {
  int ranks;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::run_threads(
        ranks,
        [&](px::ThreadCommunicator& host) {
          px::CudaPool pool;
          px::CudaStream const stream;
          px::CallerStream caller;
          px::Staged<px::ThreadCommunicator> comm{host, {.stream = stream.get(), .memory = pool, .caller = &caller}};
          body(comm);
        },
        {deadline});
  }
};

struct CudaThreads {
  int ranks;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::run_cuda_threads(ranks, body, {deadline});
  }
};

// Rank r is on device r, or on an earlier one where there are fewer.
struct NcclThreads {
  int ranks;
  bool compared = true, blocking = true;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    int devices = 0;
    px::device::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (!blocking) {
      ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // for ranks that share a device
      std::vector<int> of_ranks;
      for (int rank = 0; rank < ranks; ++rank) of_ranks.push_back(rank % devices);
      return px::run_nccl(of_ranks, body, {deadline}, {compared});
    }
    ncclUniqueId id;
    succeeds(ncclGetUniqueId(&id), "ncclGetUniqueId");
    px::run_threads(ranks,
                    [&](px::ThreadCommunicator& host) {
                      px::device::check(cudaSetDevice(host.rank() % devices), "cudaSetDevice");
                      px::CudaPool pool;
                      px::CudaStream const stream;
                      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                      config.blocking = 1;
                      ncclComm_t nccl = nullptr;
                      succeeds(ncclCommInitRankConfig(&nccl, ranks, id, host.rank(), &config), "ncclCommInitRankConfig");
                      px::CallerStream caller;
                      px::NcclCommunicator<px::ThreadCommunicator> comm{
                          nccl, host, {.stream = stream.get(), .memory = pool, .caller = &caller}, {compared}};
                      try {
                        body(comm);
                      } catch (...) {
                        comm.abort(px::current_error(host.rank(), "a rank"));
                        throw;
                      }
                      if (!comm.aborted()) ncclCommDestroy(nccl);
                    },
                    {deadline});
  }

 private:
  static void succeeds(ncclResult_t result, char const* call) {
    if (result != ncclSuccess && result != ncclInProgress)
      throw std::runtime_error{std::string{call} + ": " + ncclGetErrorString(result)};
  }
};

}  // namespace communicators
