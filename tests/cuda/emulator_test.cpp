// What the stand-in of CUDA promises its tests: orders of blocks, counts of waits, and what the runtime refuses. What ends a
// program is planted in planted/.
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "deferred.hpp"
#include "parallax/detail/kernel/cuda/launch.cuh"

namespace {

namespace px = parallax;

__global__ void note_block(std::vector<unsigned>* seen) {
  seen->push_back(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
}
std::vector<unsigned> blocks_of(dim3 grid) {
  std::vector<unsigned> seen;
  parallax_emulator::launch(nullptr, grid, 1, 0, note_block, &seen);
  return seen;
}
__global__ void nothing() {}

// While it lives another device is the current one.
struct OnDevice {
  explicit OnDevice(int device) { cudaSetDevice(device); }
  OnDevice(OnDevice const&) = delete;
  ~OnDevice() { cudaSetDevice(0); }
};

}  // namespace

TEST_CASE("every block of a launch runs once, in an order that is drawn, one launch of four from the last to the first",
          "[cuda][emulator]") {
  for (dim3 const grid : {dim3{1}, dim3{2}, dim3{7}, dim3{64}, dim3{3, 4, 5}}) {
    unsigned const count = grid.x * grid.y * grid.z;
    std::vector<unsigned> sorted(count);
    for (unsigned k = 0; k < count; ++k) sorted[k] = k;
    auto const backwards = std::vector<unsigned>(sorted.rbegin(), sorted.rend());
    std::set<std::vector<unsigned>> orders;
    int reversed = 0;
    for (int i = 0; i < 400; ++i) {
      auto seen = blocks_of(grid);
      orders.insert(seen);
      reversed += seen == backwards;
      std::sort(seen.begin(), seen.end());
      REQUIRE(seen == sorted);
    }
    INFO(count << " blocks");
    if (count == 2) CHECK(orders.size() == 2);
    if (count > 2) CHECK(orders.size() > 5);
    if (count > 7) CHECK((reversed > 60 && reversed < 140));
  }
}

TEST_CASE("of a launch of more blocks than a test asks for the first and the last are run, and some others",
          "[cuda][emulator]") {
  for (unsigned const count : {6u, 4'000'000'000u})
    for (int i = 0; i < 20; ++i) {
      emulator::most_blocks = 5;
      auto const seen = blocks_of(count);
      emulator::most_blocks = ~std::uint64_t{0};
      std::set<unsigned> const numbers(seen.begin(), seen.end());
      CHECK(seen.size() == 5);
      CHECK(numbers.size() == 5);
      CHECK(*numbers.begin() == 0);
      CHECK(*numbers.rbegin() == count - 1);
    }
}

TEST_CASE("waits for events are counted, and apart from them those for which the host stood still", "[cuda][emulator]") {
  px::CudaStream const stream;
  px::CudaEvent event;
  auto const counted = [&] {
    auto const waits = emulator::event_waits, stalls = emulator::event_stalls;
    event.synchronize();
    return std::pair{emulator::event_waits - waits, emulator::event_stalls - stalls};
  };
  std::pair<std::int64_t, std::int64_t> const went_by{1, 0}, stalled{1, 1};
  CHECK(counted() == went_by);  // nothing was recorded
  event.record(stream.get());
  CHECK(counted() == went_by);  // streams run at once
  emulated::Deferred const deferred{1};
  event.record(stream.get());
  CHECK(counted() == stalled);
  CHECK(counted() == went_by);
}

TEST_CASE("what goes to a stream of another device is refused of kernels and sorts, and taken of copies and waits",
          "[cuda][emulator]") {
  px::CudaStream const stream;
  px::CudaEvent event;
  int from = 7, to = 0;
  OnDevice const other{1};
  CHECK(parallax_emulator::launch(stream.get(), 1, 1, 0, nothing) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK_THROWS_WITH(px::device::launch(stream.get(), 1, 1, 0, nothing), parallax_test::contains("in cudaLaunchKernel"));
  CHECK(cudaGetLastError() == cudaSuccess);
  std::uint32_t numbers[2][2] = {{2, 1}, {0, 0}};
  cub::DoubleBuffer<std::uint32_t> keys{numbers[0], numbers[1]}, values{numbers[0], numbers[1]};
  std::size_t bytes = 1;
  CHECK(cub::DeviceRadixSort::SortPairs(numbers, bytes, keys, values, 2, 0, 32, stream.get()) ==
        cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyHostToDevice, stream.get()) == cudaSuccess);
  CHECK(to == 7);
  CHECK(cudaMemsetAsync(&to, 0, sizeof to, stream.get()) == cudaSuccess);
  CHECK(cudaEventRecord(event.get(), stream.get()) == cudaSuccess);  // of the same device, whichever is current
  CHECK(cudaStreamWaitEvent(nullptr, event.get()) == cudaSuccess);
  CHECK(cudaEventQuery(event.get()) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(cudaEventRecord(event.get(), nullptr) == cudaErrorInvalidResourceHandle);  // the default stream is the current device's
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
}

TEST_CASE("a stream that is destroyed goes at once, and does what it was given later", "[cuda][emulator]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulated::Deferred const deferred{seed};
    px::CudaStream const other;
    px::CudaEvent event, of_other;
    cudaStream_t stream = nullptr;
    int const from = 7;
    int first = 0, last = 0, seen = 0;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    of_other.record(other.get());
    REQUIRE(cudaStreamWaitEvent(stream, of_other.get()) == cudaSuccess);
    REQUIRE(cudaMemcpyAsync(&first, &from, sizeof first, cudaMemcpyHostToDevice, stream) == cudaSuccess);
    event.record(stream);
    REQUIRE(cudaMemcpyAsync(&last, &first, sizeof last, cudaMemcpyDeviceToDevice, stream) == cudaSuccess);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
    CHECK(first == 0);
    CHECK(cudaStreamWaitEvent(other.get(), event.get()) == cudaSuccess);
    CHECK(cudaMemcpyAsync(&seen, &first, sizeof seen, cudaMemcpyDeviceToHost, other.get()) == cudaSuccess);
    CHECK(cudaStreamSynchronize(other.get()) == cudaSuccess);
    CHECK(seen == 7);
    CHECK(cudaEventQuery(event.get()) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(last == 7);
  }
}

TEST_CASE("a stream that was destroyed is refused, before it has done what it was given and ever after", "[cuda][emulator]") {
  emulated::Deferred const deferred{1};
  px::CudaEvent event;
  int from = 7, to = 0, given = 0;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  ncclCommInitRank(&comm, 1, id, 0);
  void *taken = nullptr, *never = nullptr;
  REQUIRE(cudaMallocAsync(&taken, 8, stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphExec_t made = nullptr;
  REQUIRE(cudaGraphInstantiateWithFlags(&made, graph, 0) == cudaSuccess);
  cudaMemPoolProps const properties{cudaMemAllocationTypePinned, 0, {cudaMemLocationTypeDevice, 0}};
  cudaMemPool_t pool = nullptr;
  REQUIRE(cudaMemPoolCreate(&pool, &properties) == cudaSuccess);
  std::uint32_t numbers[2][2] = {{2, 1}, {0, 0}};
  cub::DoubleBuffer<std::uint32_t> keys{numbers[0], numbers[1]}, values{numbers[0], numbers[1]};
  std::size_t bytes = 1;
  REQUIRE(cudaMemcpyAsync(&given, &from, sizeof given, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);

  auto const refused = [&](cudaError_t answer) {
    return answer == cudaErrorInvalidResourceHandle && cudaGetLastError() == cudaErrorInvalidResourceHandle;
  };
  for (int const done : {0, 7}) {
    CHECK(given == done);
    CHECK(refused(parallax_emulator::launch(stream, 1, 1, 0, nothing)));
    CHECK(refused(cub::DeviceRadixSort::SortPairs(numbers, bytes, keys, values, 2, 0, 32, stream)));
    CHECK(refused(cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyHostToDevice, stream)));
    CHECK(refused(cudaMemcpy2DAsync(&to, 4, &from, 4, 4, 1, cudaMemcpyHostToDevice, stream)));
    CHECK(refused(cudaMemsetAsync(&to, 1, sizeof to, stream)));
    CHECK(refused(cudaMallocAsync(&never, 8, stream)));
    CHECK(refused(cudaMallocFromPoolAsync(&never, 8, pool, stream)));
    CHECK(refused(cudaFreeAsync(taken, stream)));
    CHECK(refused(cudaEventRecord(event.get(), stream)));
    CHECK(refused(cudaStreamWaitEvent(stream, event.get())));
    CHECK(refused(cudaStreamSynchronize(stream)));
    CHECK(refused(cudaStreamQuery(stream)));
    CHECK(refused(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)));
    CHECK(refused(cudaStreamEndCapture(stream, &graph)));
    CHECK(refused(cudaGraphLaunch(made, stream)));
    CHECK(refused(cudaStreamDestroy(stream)));
    CHECK(ncclAllReduce(&from, &to, 1, ncclFloat32, ncclSum, comm, stream) == ncclUnhandledCudaError);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  CHECK(cudaEventQuery(event.get()) == cudaSuccess);  // what was refused is not recorded
  CHECK(to == 0);
  CHECK(never == nullptr);
  std::vector<px::CudaStream> const later(20);  // none of which has its handle
  CHECK(refused(cudaStreamSynchronize(stream)));
  CHECK(cudaFree(taken) == cudaSuccess);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
  cudaGraphExecDestroy(made);
  cudaGraphDestroy(graph);
  cudaMemPoolDestroy(pool);
}

TEST_CASE("NCCL's work for a stream that is destroyed before it gets there fails", "[cuda][emulator]") {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInProgress);
  auto const ends = [&] {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) REQUIRE(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    return state;
  };
  REQUIRE(ends() == ncclSuccess);
  float const from = 7;
  float to = 0;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(ncclAllReduce(&from, &to, 1, ncclFloat32, ncclSum, comm, stream) == ncclInProgress);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(ends() == ncclUnhandledCudaError);
  CHECK(to == 0);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("memory is of the current device, or of the pool's, or of the stream's where there is no pool", "[cuda][emulator]") {
  px::CudaStream const stream;
  px::CudaPool pool;
  void *own = nullptr, *of_pool = nullptr, *of_stream = nullptr, *pinned = nullptr;
  {
    OnDevice const other{1};
    REQUIRE(cudaMalloc(&own, 8) == cudaSuccess);
    of_pool = pool.allocate(8, 256, stream.get());
    REQUIRE(cudaMallocAsync(&of_stream, 8, stream.get()) == cudaSuccess);
    REQUIRE(cudaMallocHost(&pinned, 8) == cudaSuccess);
  }
  auto const reach = [](void const* at) {
    emulator::Locked const locked{emulator::mutex};
    return std::array{emulator::own(at, 0), emulator::own(at, 1), emulator::visible(at, 0), emulator::visible(at, 1)};
  };
  CHECK(reach(own) == std::array{false, true, true, true});  // NCCL makes it visible
  CHECK(reach(of_pool) == std::array{true, true, true, true});
  CHECK(reach(of_stream) == std::array{true, false, true, false});
  CHECK(reach(pinned) == std::array{true, true, true, true});
  CHECK(cudaFree(own) == cudaSuccess);
  CHECK(cudaFreeAsync(of_pool, stream.get()) == cudaSuccess);
  CHECK(cudaFree(of_stream) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("devices that are not there are refused, and times between events that tell none", "[cuda][emulator]") {
  int answer = 0;
  CHECK(cudaSetDevice(emulator::devices) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceGetAttribute(&answer, cudaDevAttrMultiProcessorCount, emulator::devices) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceCanAccessPeer(&answer, 0, -1) == cudaErrorInvalidDevice);
  cudaEvent_t first = nullptr, last = nullptr, silent = nullptr, elsewhere = nullptr;
  for (cudaEvent_t* const event : {&first, &last}) REQUIRE(cudaEventCreateWithFlags(event, cudaEventDefault) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&silent, cudaEventDisableTiming) == cudaSuccess);
  {
    OnDevice const other{1};
    REQUIRE(cudaEventCreateWithFlags(&elsewhere, cudaEventDefault) == cudaSuccess);
    REQUIRE(cudaEventRecord(elsewhere, nullptr) == cudaSuccess);
  }
  float milliseconds = 0;
  REQUIRE(cudaEventRecord(first, nullptr) == cudaSuccess);
  REQUIRE(cudaEventRecord(silent, nullptr) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, first, last) == cudaErrorInvalidResourceHandle);  // was not recorded
  CHECK(cudaEventElapsedTime(&milliseconds, first, silent) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventElapsedTime(&milliseconds, first, elsewhere) == cudaErrorInvalidResourceHandle);
  {
    emulated::Deferred const deferred{1};
    REQUIRE(cudaEventRecord(last, nullptr) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&milliseconds, first, last) == cudaErrorNotReady);
    REQUIRE(cudaEventSynchronize(last) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&milliseconds, first, last) == cudaSuccess);
  }
  for (cudaEvent_t const event : {first, last, silent, elsewhere}) cudaEventDestroy(event);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("NCCL's kernels do not reach memory of another device than the rank's", "[cuda][emulator]") {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  ncclCommInitRank(&comm, 1, id, 0);
  px::CudaStream const stream;
  void *here = nullptr, *elsewhere = nullptr;
  REQUIRE(cudaMalloc(&here, 8) == cudaSuccess);
  {
    OnDevice const other{1};
    REQUIRE(cudaMalloc(&elsewhere, 8) == cudaSuccess);
  }
  ncclResult_t state = ncclSuccess;
  auto const sum = [&](void* to) {
    CHECK(ncclAllReduce(here, to, 2, ncclFloat32, ncclSum, comm, stream.get()) == ncclSuccess);
    CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    return state;
  };
  CHECK(sum(here) == ncclSuccess);
  CHECK(sum(elsewhere) == ncclUnhandledCudaError);
  CHECK(std::exchange(emulator::nccl.report, "") == "rank 0 brings memory of another device; ");
  CHECK(ncclCommAbort(comm) == ncclSuccess);
  cudaFree(here);
  cudaFree(elsewhere);
}
