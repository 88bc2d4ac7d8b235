// Ranks on devices joined by NCCL: `run_nccl`, called by trainers, over threads of this process or over a communicator of
// processes. It sets NCCL up, watches over the set-up, and tears it down.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "parallax/comm/collectives.hpp"
#include "parallax/comm/nccl.hpp"
#include "parallax/comm/thread.hpp"

namespace parallax::inline v0_2 {

// One rank's device, stream, pool and communicator of NCCL. Owns them; refers to the host communicator, which must outlive it.
// Not moved. Made and used by one thread, with the device as its current one from then on.
//   constructing   collective over the host communicator, by which the ranks get NCCL's id of rank 0. NCCL's communicator does
//                  not block: a missing rank is an Error (timeout). A failure on one rank before all call NCCL is an Error
//                  with its number, on all ranks; later, on the waiting ranks as well
//   destroying     local, waits for NCCL's end at most the deadline, then aborts it
template <Communicator Host>
class NcclRank {
 public:
  // Collective, see the class. `device`: of the process, from 0. Throws Error: invalid_argument for a device out of range,
  // out_of_memory, device, transport, and NcclCommunicator's.
  NcclRank(Host& host, int device, NcclOptions options = {}) : host_{&host} {
    std::optional<Error> mine;
    ncclUniqueId id{};
    try {
      take(device);
      if (host.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    } catch (Error const& error) {
      mine = error;
    }
    agree(mine);
    broadcast(host, std::span<char>{id.internal});
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t const begun = ncclCommInitRankConfig(&nccl_, host.size(), id, host.rank(), &config);
    if (begun != ncclSuccess && begun != ncclInProgress && nccl_) static_cast<void>(ncclCommAbort(nccl_));
    check(begun, "ncclCommInitRankConfig");
    communicator_.emplace(nccl_, host, CudaQueue{.stream = stream_->get(), .memory = *pool_, .caller = &*caller_},
                          options);  // its constructor aborts `nccl_` on failure
  }
  NcclRank(NcclRank&&) = delete;
  ~NcclRank() {
    bool const aborted = communicator_->aborted();
    communicator_.reset();
    if (aborted) return;
    ncclResult_t state = ncclCommFinalize(nccl_);
    for (Patience<Host> patience{*host_}; state == ncclInProgress && patience.pause();)
      if (ncclCommGetAsyncError(nccl_, &state) != ncclSuccess) state = ncclInternalError;
    static_cast<void>(state == ncclSuccess ? ncclCommDestroy(nccl_) : ncclCommAbort(nccl_));
  }

  // Returns the rank's communicator, owned by this object.
  NcclCommunicator<Host>& communicator() { return *communicator_; }

 private:
  void take(int device) {
    int devices = 0;
    device::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (device < 0 || device >= devices)
      throw Error{Errc::invalid_argument, host_->rank(), "run_nccl", "",
                  joined({"device ", device, " is not there: this process has ", devices})};
    device::check(cudaSetDevice(device), "cudaSetDevice");
    pool_.emplace();
    stream_.emplace();
    caller_.emplace();
  }
  void check(ncclResult_t result, char const* call) const {
    if (result == ncclSuccess || result == ncclInProgress) return;
    throw Error{Errc::transport, host_->rank(), call, "", joined({"rank ", host_->rank(), ": ", ncclGetErrorString(result)})};
  }
  // Collective. Throws the first failed rank's error on all ranks: nobody begins to wait in NCCL for a rank not coming.
  void agree(std::optional<Error> const& mine) const {
    struct Told {
      int failed = 0, code = 0;
      char operation[40] = {}, detail[256] = {};
    };
    auto const copy = [](auto& to, std::string_view text) {
      std::memcpy(to, text.data(), std::min(text.size(), sizeof to - 1));
    };
    Told told;
    if (mine) {
      told.failed = 1, told.code = static_cast<int>(mine->code());
      copy(told.operation, mine->operation());
      copy(told.detail, mine->detail());
    }
    auto const all = allgather(*host_, told);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].failed)
        throw Error{static_cast<Errc>(all[rank].code), static_cast<int>(rank), all[rank].operation, "", all[rank].detail};
  }

  Host* host_;
  std::optional<CudaPool> pool_;
  std::optional<CudaStream> stream_;
  std::optional<CallerStream> caller_;
  ncclComm_t nccl_ = nullptr;
  std::optional<NcclCommunicator<Host>> communicator_;
};

// Collective over the host communicator of processes, or threads, each with a device of its own. Calls body(world) with an
// NcclCommunicator<Host>&, its queue on that device, and tears NCCL down afterwards. An exception of the body ends all ranks. A
// body working in another stream than the queue's says so: world.queue().caller->follow(stream). Throws NcclRank's errors.
//   px::run(argc, argv, [](px::AnyCommunicator& host) { px::run_nccl(host, 0, train); });   each process sees one device
template <Communicator Host, class Body>
void run_nccl(Host& host, int device, Body&& body, NcclOptions options = {}) {
  NcclRank<Host> rank{host, device, options};
  try {
    body(rank.communicator());
  } catch (...) {
    rank.communicator().abort(current_error(host.rank(), "the training of a rank"));
    throw;
  }
}

// Returns the numbers of all devices seen by this process, for `run_nccl`. Throws Error (device) if the runtime cannot tell.
inline std::vector<int> all_devices() {
  int count = 0;
  device::check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::vector<int> devices(static_cast<std::size_t>(count));
  for (int device = 0; device < count; ++device) devices[static_cast<std::size_t>(device)] = device;
  return devices;
}

// Runs `body` on as many threads as devices, one on each, over a ThreadCommunicator; as run_threads. Throws Error (misuse) for
// a device named twice if CUDA loads kernels when they are first launched: NCCL's of one rank would wait for the other's, which
// cannot be loaded meanwhile.
template <class Body>
void run_nccl(std::vector<int> const& devices, Body&& body, ThreadOptions options = {}, NcclOptions of_nccl = {}) {
  std::vector<int> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  auto const twice = std::adjacent_find(sorted.begin(), sorted.end());
  char const* const loading = std::getenv("CUDA_MODULE_LOADING");
  if (twice != sorted.end() && (!loading || std::string_view{loading} != "EAGER"))
    throw Error{
        Errc::misuse, -1, "run_nccl", "",
        joined({"device ", *twice, " is named for two ranks, which needs CUDA_MODULE_LOADING=EAGER in the environment"})};
  run_threads(
      static_cast<int>(devices.size()),
      [&](ThreadCommunicator& host) { run_nccl(host, devices[static_cast<std::size_t>(host.rank())], body, of_nccl); },
      options);
}

}  // namespace parallax
