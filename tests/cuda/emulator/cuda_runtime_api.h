// Stands in for CUDA's <cuda_runtime_api.h> on machines without it: memory of the device is memory of the host, poisoned when
// it is handed out, and streams are queues. They run at once; or, where emulator::deferred says so, when something waits for
// them, in an order drawn from a seed among those that streams and events allow, so that an event that nobody waits for is
// found out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <new>
#include <vector>

struct CUstream_st;
struct CUevent_st;
struct CUmemPoolHandle_st;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrMemoryPoolsSupported = 115 };
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
enum cudaMemAllocationType { cudaMemAllocationTypePinned = 1 };
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventDefault = 0;

namespace emulator {

struct Event {
  std::uint64_t recorded = 0, reached = 0;  // counts of records: asked for, and run
};
struct Operation {
  std::function<void()> run;
  Event const* awaits = nullptr;
  std::uint64_t record = 0;
};
struct Stream {
  std::deque<Operation> operations;
};

inline bool deferred = false;
inline std::uint64_t stream_seed = 1;
inline Stream default_stream;
inline std::vector<Stream*> streams{&default_stream};
inline cudaError_t next_error = cudaSuccess;  // of the next call that can fail
inline std::int64_t blocks_in_use = 0;        // of memory
inline int multiprocessors = 2;               // of the device, for those who plan grids

inline cudaError_t take_error() {
  cudaError_t const error = next_error;
  next_error = cudaSuccess;
  return error;
}
inline Stream& of(CUstream_st* stream) { return stream ? *reinterpret_cast<Stream*>(stream) : default_stream; }

inline bool can_run(Stream const& stream) {
  if (stream.operations.empty()) return false;
  Operation const& first = stream.operations.front();
  return !first.awaits || first.awaits->reached >= first.record;
}
// Runs operations of any streams until `done`.
template <class Done>
void run_until(Done const& done) {
  while (!done()) {
    std::vector<Stream*> able;
    for (Stream* stream : streams)
      if (can_run(*stream)) able.push_back(stream);
    if (able.empty()) std::abort();
    stream_seed ^= stream_seed << 13, stream_seed ^= stream_seed >> 7, stream_seed ^= stream_seed << 17;
    Stream& stream = *able[stream_seed % able.size()];
    Operation const operation = std::move(stream.operations.front());
    stream.operations.pop_front();
    if (operation.run) operation.run();
  }
}
template <class F>
void enqueue(CUstream_st* stream, F&& run) {
  Stream& to = of(stream);
  to.operations.push_back({std::forward<F>(run), nullptr, 0});
  if (!deferred) run_until([&] { return to.operations.empty(); });
}

}  // namespace emulator

using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaMemPool_t = CUmemPoolHandle_st*;
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
struct cudaMemPoolProps {
  cudaMemAllocationType allocType;
  int handleTypes;
  cudaMemLocation location;
};

inline char const* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    default: return "cudaError";
  }
}
inline char const* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : error == cudaSuccess ? "no error" : "an error";
}
inline cudaError_t cudaGetLastError() { return emulator::take_error(); }
inline cudaError_t cudaPeekAtLastError() { return emulator::next_error; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? emulator::multiprocessors : 1;
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (cudaError_t const error = emulator::take_error()) return error;
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!*memory) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xCD, bytes);
  ++emulator::blocks_in_use;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  emulator::blocks_in_use -= memory != nullptr;
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return cudaMalloc(memory, bytes); }
inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
inline cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) { return cudaMalloc(memory, bytes); }
inline cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t, cudaStream_t) {
  return cudaMalloc(memory, bytes);
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  emulator::enqueue(stream, [memory] { cudaFree(memory); });
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, cudaMemPoolProps const*) {
  if (cudaError_t const error = emulator::take_error()) return error;
  *pool = reinterpret_cast<cudaMemPool_t>(new int{});
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete reinterpret_cast<int*>(pool);
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

inline cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error()) return error;
  emulator::enqueue(stream, [=] { if (bytes > 0) std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error()) return error;
  emulator::enqueue(stream, [=] { if (bytes > 0) std::memset(to, value, bytes); });
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  auto* const made = new emulator::Stream;
  emulator::streams.push_back(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error()) return error;
  emulator::run_until([&] { return emulator::of(stream).operations.empty(); });
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cudaStreamSynchronize(stream);
  std::erase(emulator::streams, &emulator::of(stream));
  delete reinterpret_cast<emulator::Stream*>(stream);
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new emulator::Event);
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<emulator::Event*>(event);
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto* const marked = reinterpret_cast<emulator::Event*>(event);
  std::uint64_t const record = ++marked->recorded;
  emulator::enqueue(stream, [=] { marked->reached = record; });
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  auto* const awaited = reinterpret_cast<emulator::Event*>(event);
  emulator::of(stream).operations.push_back({{}, awaited, awaited->recorded});
  if (!emulator::deferred) emulator::run_until([&] { return emulator::of(stream).operations.empty(); });
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  auto const* const awaited = reinterpret_cast<emulator::Event*>(event);
  emulator::run_until([&] { return awaited->reached >= awaited->recorded; });
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto const* const asked = reinterpret_cast<emulator::Event*>(event);
  return asked->reached >= asked->recorded ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;  // time does not pass here
  return cudaSuccess;
}
