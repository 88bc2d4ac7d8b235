#include "parallax/memory/cuda.hpp"

#include <cuda_runtime.h>

#include <atomic>
#include <vector>

#include "../catch.hpp"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/memory/buffer.hpp"

using parallax::CudaArena;
using parallax::CudaEvent;
using parallax::CudaPool;
using parallax::CudaSpace;
using parallax::DeviceBuffer;
using parallax::Errc;
using parallax::PinnedSpace;

namespace {

template <class F>
Errc code_of(F const& f) {
  try {
    f();
  } catch (parallax::Error const& error) {
    return error.code();
  }
  return Errc{};
}

// Counts what it is asked for and given back; stands for a user's resource.
struct Counting {
  void* allocate(std::size_t bytes, std::size_t, cudaStream_t stream) {
    ++allocated, last = stream;
    return pool.allocate(bytes, 256, stream);
  }
  void deallocate(void* memory, std::size_t bytes, std::size_t, cudaStream_t stream) noexcept {
    ++given_back, last = stream;
    pool.deallocate(memory, bytes, 256, stream);
  }
  CudaPool pool;
  int allocated = 0, given_back = 0;
  cudaStream_t last = nullptr;
};

}  // namespace

static_assert(parallax::MemorySpace<CudaSpace> && !CudaSpace::host_readable);
static_assert(parallax::MemorySpace<PinnedSpace> && PinnedSpace::host_readable);
static_assert(parallax::device::DeviceResource<CudaPool> && parallax::device::DeviceResource<CudaArena>);
static_assert(parallax::device::DeviceResource<Counting>);

TEST_CASE("a buffer in device memory gives back what it took", "[cuda][memory]") {
  auto const before = emulator::blocks_in_use;
  {
    parallax::Buffer<float, CudaSpace> table{100};
    CHECK(emulator::blocks_in_use == before + 1);
    table.resize(50);
    CHECK(emulator::blocks_in_use == before + 1);
  }
  CHECK(emulator::blocks_in_use == before);
}

TEST_CASE("a call of the runtime that fails is an error with its name", "[cuda][memory]") {
  emulator::next_error = cudaErrorMemoryAllocation;
  CHECK(code_of([] { CudaSpace::allocate(8); }) == Errc::out_of_memory);
  emulator::next_error = cudaErrorInsufficientDriver;
  CHECK(code_of([] { CudaPool{}; }) == Errc::device);
  emulator::next_error = cudaErrorInsufficientDriver;
  CHECK_THROWS_WITH(CudaSpace::allocate(8),
                    "parallax: device failure in cudaMalloc: cudaErrorInsufficientDriver: an error (the driver is for CUDA "
                    "12.4, the program for 13.0)");
}

TEST_CASE("a device without memory pools is named, and what to do", "[cuda][memory]") {
  emulator::has_pools = false;
  CHECK_THROWS_WITH(
      CudaPool{},
      "parallax: device failure in CudaPool: device 0 has no memory pools: give the CudaQueue a resource of your own");
  emulator::has_pools = true;
}

TEST_CASE("what an error has told, and what is not ready yet, is left behind for no other call", "[cuda][memory]") {
  emulator::next_error = cudaErrorMemoryAllocation;
  CHECK(code_of([] { CudaSpace::allocate(8); }) == Errc::out_of_memory);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  parallax::CudaStream const stream;
  CudaEvent event;
  std::atomic<bool> over{false};
  emulator::put(emulator::of(stream.get()), {{}, nullptr, 0, [&] { return over.load(); }});
  event.record(stream.get());
  CHECK_FALSE(event.reached());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  over = true;
  CHECK(event.reached());
}

TEST_CASE("what fails as memory is given back or a device is asked of is left behind for no other call", "[cuda][memory]") {
  auto const left = [](auto&& call) {  // as the last error by a call that fails
    emulator::next_untold_error = cudaErrorInsufficientDriver;
    call();
    CHECK(emulator::next_untold_error == cudaSuccess);
    return cudaGetLastError();
  };
  void* const on_device = CudaSpace::allocate(8);
  void* const pinned = PinnedSpace::allocate(8);
  CudaEvent const event;
  CHECK(left([&] { CudaSpace::deallocate(on_device, 8); }) == cudaSuccess);
  CHECK(left([&] { PinnedSpace::deallocate(pinned, 8); }) == cudaSuccess);
  CHECK(left([&] { event.synchronize(); }) == cudaSuccess);
  emulator::multiprocessors = 2;  // whatever a test before this one left
  unsigned multiprocessors = 1;
  CHECK(left([&] { multiprocessors = parallax::device::detail::multiprocessors(); }) == cudaSuccess);
  CHECK(multiprocessors == 0);
  CHECK(parallax::device::detail::multiprocessors() == 2);
}

TEST_CASE("a device buffer allocates in its stream, and only when it grows", "[cuda][memory]") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  Counting resource;
  {
    DeviceBuffer<int> buffer{resource, stream, 10};
    CHECK(resource.last == stream);
    buffer.resize(5);
    buffer.resize(10);
    CHECK(resource.allocated == 1);
    std::vector<int> const sent{1, 2, 3};
    std::vector<int> received(3);
    buffer.copy_from(sent.data(), sent.size());
    buffer.copy_to(received.data(), received.size());
    cudaStreamSynchronize(stream);
    CHECK(received == sent);
    DeviceBuffer<int> moved{std::move(buffer)};
    CHECK(moved.size() == 10);
    CHECK(buffer.data() == nullptr);
    buffer = DeviceBuffer<int>{resource, stream, 4};
    CHECK(resource.allocated == 2);
  }
  CHECK(resource.given_back == 2);
  cudaStreamDestroy(stream);
}

TEST_CASE("tables are of the resource that the program names before", "[cuda][memory]") {
  parallax::CudaStream const stream;
  Counting resource;
  CudaSpace::draw_from(resource, stream.get());
  {
    parallax::Buffer<float, CudaSpace> table{100};
    CHECK(resource.allocated == 1);
    CHECK(resource.last == stream.get());
    table[99] = 1;
    CHECK_THROWS_WITH(CudaSpace::draw_from({}), "parallax: misuse in CudaSpace::draw_from: 1 blocks are in use");
  }
  CHECK(resource.given_back == 1);
  CudaSpace::draw_from({});
  parallax::Buffer<float, CudaSpace> const runtimes{100};
  CHECK(resource.allocated == 1);
}

TEST_CASE("each device has a resource of its own, and what is given back waits for the device that it was made on",
          "[cuda][memory]") {
  parallax::CudaStream const of_first;
  Counting first;
  CudaSpace::draw_from(first, of_first.get());
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  {
    parallax::CudaStream const of_second;
    Counting second;
    CudaSpace::draw_from(second, of_second.get());
    parallax::Buffer<float, CudaSpace> there{100};
    CHECK(second.allocated == 1);
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    parallax::Buffer<float, CudaSpace> here{100};
    CHECK(first.allocated == 1);
    CHECK(second.allocated == 1);

    emulator::deferred = true;
    bool done = false;
    emulator::put(emulator::of(of_second.get()), {[&] { done = true; }});
    there = {};  // by a thread whose device is the other one
    CHECK(done);
    emulator::deferred = false;
    CHECK(second.given_back == 1);
    CHECK(second.last == of_second.get());
    CHECK(first.given_back == 0);
    CHECK(parallax::device::current_device() == 0);
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    CudaSpace::draw_from({});
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
  }
  CudaSpace::draw_from({});
}

TEST_CASE("pinned memory that another device's thread gives back is waited for where it is used", "[cuda][memory]") {
  parallax::Buffer<int, PinnedSpace> pinned{4};
  parallax::CudaStream const stream;
  emulator::deferred = true;
  bool done = false;
  emulator::put(emulator::of(stream.get()), {[&] { done = true; }});
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  pinned = {};
  CHECK(done);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  emulator::deferred = false;
}

TEST_CASE("a queue without a resource says so where it would allocate", "[cuda][memory]") {
  parallax::CudaQueue const queue{};
  DeviceBuffer<int> buffer{queue.memory, queue.stream};
  CHECK(code_of([&] { buffer.resize(1); }) == Errc::misuse);
  CHECK(buffer.size() == 0);
}

TEST_CASE("a device buffer whose growth fails is as it was", "[cuda][memory]") {
  CudaPool pool;
  DeviceBuffer<int> buffer{pool, nullptr, 4};
  int* const data = buffer.data();
  emulator::next_error = cudaErrorMemoryAllocation;
  CHECK(code_of([&] { buffer.resize(1000); }) == Errc::out_of_memory);
  CHECK(buffer.data() == data);
  CHECK(buffer.size() == 4);
}

TEST_CASE("an event is reached when its stream has come to it, and may go before", "[cuda][memory]") {
  emulator::deferred = true;
  {
    parallax::CudaStream const stream;
    parallax::CudaStream const other;
    parallax::Buffer<int, PinnedSpace> pinned{1};
    pinned[0] = 1;
    std::vector<int> there(1), after(1);
    {
      CudaEvent event;
      CHECK(event.reached());  // nothing was recorded
      parallax::device::copy(there.data(), pinned.data(), sizeof(int), cudaMemcpyHostToDevice, stream.get());
      event.record(stream.get());
      CHECK(cudaStreamWaitEvent(other.get(), event.get(), 0) == cudaSuccess);
    }
    parallax::device::copy(after.data(), there.data(), sizeof(int), cudaMemcpyDeviceToHost, other.get());
    CHECK(after[0] == 0);
    CudaEvent end;
    end.record(other.get());
    while (!end.reached()) {}
    CHECK(after[0] == 1);
  }
  emulator::deferred = false;
}

TEST_CASE("an arena hands out one block piece by piece, and all of it again after a reset", "[cuda][memory]") {
  parallax::Buffer<std::byte, CudaSpace> block{1024};
  CudaArena arena{block.data(), block.size()};
  auto* const first = static_cast<std::byte*>(arena.allocate(10, 256));
  auto* const second = static_cast<std::byte*>(arena.allocate(100, 256));
  CHECK(first == block.data());
  CHECK(second == first + 256);
  CHECK(arena.used() == 356);
  CHECK_THROWS_WITH(arena.allocate(1000, 256),
                    "parallax: out of memory in CudaArena: 1512 bytes are needed, the block has 1024");
  arena.reset();
  CHECK(arena.allocate(1024, 256) == first);
  CHECK(arena.most_used() == 1024);
}
