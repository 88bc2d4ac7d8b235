// Stands in for CUDA's <cuda_runtime_api.h> on machines without it: memory of the device is memory of the host, poisoned when
// it is handed out, and streams are queues. They run at once; or, where emulator::deferred says so, when something waits for
// them or asks about an event, in an order drawn from a seed among those that streams and events allow, so that an event that
// nobody waits for is found out. For several threads: whoever waits or asks runs what can run, of any stream, one at a time.
// As strict as the runtime: a call that fails, or that says "not ready", leaves a last error of its thread behind; a new thread
// has device 0; a kernel is launched on a stream of the current device, an event recorded on one of its own; and peers see a
// pool's memory where they were given access. As in the runtime, copies, memsets and waits take streams of any device, memory
// is given back whatever device is current, and a stream that is destroyed goes at once, while what it was given is done later.
// Stricter: every call refuses the handle of a destroyed stream, which no later stream gets, where the runtime may do anything;
// and the program ends where memory is given back a second time, also in the order of a stream, or was never taken, and where a
// thread ends with a last error that nobody has taken.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

struct CUstream_st;
struct CUevent_st;
struct CUmemPoolHandle_st;

enum cudaError {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorIllegalState = 401,
  cudaErrorLaunchFailure = 719,
};
using cudaError_t = cudaError;
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
enum cudaMemAccessFlags { cudaMemAccessFlagsProtNone = 0, cudaMemAccessFlagsProtRead = 1, cudaMemAccessFlagsProtReadWrite = 3 };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventDefault = 0;

namespace emulator {

struct Event {
  std::uint64_t recorded = 0, reached = 0;  // counts of records: asked for, and run
};
struct Operation {
  std::function<void()> run;
  std::shared_ptr<Event const> awaits = nullptr;
  std::uint64_t record = 0;
  std::function<bool()> ready = nullptr;       // asked when it is the first of its stream: what depends on other threads
  std::function<Operation()> again = nullptr;  // of a graph: makes the operation of a launch, where it has a state of its own
};
// What was taken and given back within a graph: it is the graph's, at the same place in every launch. The last graph, or launch of
// one, gives it back, with the lock held.
struct GraphMemory {
  std::map<void*, bool> blocks;  // whether the graph gives it back itself

  ~GraphMemory();
};
struct Captured {
  std::vector<Operation> operations;
  std::shared_ptr<GraphMemory> memory = std::make_shared<GraphMemory>();
};
inline constexpr int devices = 2;
inline thread_local int current_device = 0;

struct Stream {
  std::deque<Operation> operations;
  int device = current_device;
  Captured* captured = nullptr;  // where a capture puts what the stream is given
  bool destroyed = false;        // it takes nothing more, and does what it has
};
struct Pool {
  int device = current_device;
  std::array<bool, devices> peers{};  // that were given access
};
inline constexpr int of_host = -1;  // in place of a device: pinned memory
struct Memory {
  std::size_t bytes = 0;
  int device = of_host;
  std::shared_ptr<Pool const> pool = nullptr;  // null: cudaMalloc's, which NCCL makes visible itself, or the host's
  bool leaves = false;                         // a stream has been told to give it back
  int taken_on = current_device;               // which device was the current one
};

inline bool deferred = false;
inline std::mutex mutex;  // of all that follows; held while operations run
inline std::uint64_t stream_seed = 1;
inline Stream default_streams[devices]{{{}, 0}, {{}, 1}};
inline std::vector<Stream*> streams{&default_streams[0], &default_streams[1]};
inline std::vector<std::unique_ptr<Stream>> past_streams;  // destroyed: kept, so that their handles are known
inline std::map<std::byte const*, Memory> memory;          // by where it begins
inline thread_local cudaError_t next_error = cudaSuccess;  // of this thread's next call that can fail
// Of this thread's next call that waits, or asks of the device: whose failure nobody is told.
inline thread_local cudaError_t next_untold_error = cudaSuccess;
inline std::int64_t blocks_in_use = 0;                      // of memory
inline std::int64_t allocations = 0, host_allocations = 0;  // of memory, and of the host's among it, ever
inline std::int64_t pool_allocations = 0;                   // among them those in the order of a stream, which keep the memory
inline std::int64_t copies_to_host = 0, synchronizations = 0;  // asked for, ever; those of whole streams and of the device
inline std::int64_t bus_bytes = 0;                             // of copies from and to the host's memory, asked for, ever
inline std::int64_t copies = 0;                                // of any kind and memsets, of one byte at least, asked for, ever
// Calls of cudaEventSynchronize, ever; and those among them that found the event not reached, so that the host stood still.
// With streams that are deferred these ran work of them, or awaited another thread.
inline std::int64_t event_waits = 0, event_stalls = 0;
inline bool has_pools = true;    // the device, as cudaMallocAsync and its like want
inline int multiprocessors = 2;  // of the device, for those who plan grids

using Locked = std::lock_guard<std::mutex>;

[[noreturn]] inline void stuck(char const* what) {
  std::fprintf(stderr, "emulator: %s\n", what);
  std::fflush(stderr);
  std::_Exit(70);
}

// The last error that a call of a thread came back with. Whoever looks at what calls come back with takes it as well, so that a
// thread that ends with one has missed it.
struct LastError {
  cudaError_t error = cudaSuccess;

  ~LastError() {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "emulator: error %d\n", static_cast<int>(error));
    stuck("a thread ends with an error that it has not looked at");
  }
};
inline thread_local LastError last_error;

// What a call comes back with.
inline cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) last_error.error = error;
  return error;
}
inline cudaError_t take_error() { return answer(std::exchange(next_error, cudaSuccess)); }
inline cudaError_t take_untold_error() { return answer(std::exchange(next_untold_error, cudaSuccess)); }
inline Stream& of(CUstream_st* stream) { return stream ? *reinterpret_cast<Stream*>(stream) : default_streams[current_device]; }
inline cudaError_t check_handle(CUstream_st* stream) {
  return answer(of(stream).destroyed ? cudaErrorInvalidResourceHandle : cudaSuccess);
}
// Of a call that is given a stream.
inline cudaError_t take_error(CUstream_st* stream) {
  cudaError_t const error = take_error();
  return error == cudaSuccess ? check_handle(stream) : error;
}
// Of a call that launches kernels: they go to streams of the current device.
inline cudaError_t check_launch(CUstream_st* stream) {
  return of(stream).device == current_device ? check_handle(stream) : answer(cudaErrorInvalidResourceHandle);
}

inline std::uint64_t draw_stream() {
  stream_seed ^= stream_seed << 13, stream_seed ^= stream_seed >> 7, stream_seed ^= stream_seed << 17;
  return stream_seed;
}
inline bool can_run(Stream const& stream) {
  if (stream.operations.empty()) return false;
  Operation const& first = stream.operations.front();
  if (first.ready) return first.ready();
  return !first.awaits || first.awaits->reached >= first.record;
}
// Runs one operation of any stream; false where none can run. Call it with the lock held.
inline bool run_one() {
  static std::vector<Stream*> able;
  able.clear();
  for (Stream* stream : streams)
    if (can_run(*stream)) able.push_back(stream);
  if (able.empty()) return false;
  Stream& stream = *able[draw_stream() % able.size()];
  Operation const operation = std::move(stream.operations.front());
  stream.operations.pop_front();
  if (operation.run) operation.run();
  if (stream.destroyed && stream.operations.empty()) std::erase(streams, &stream);
  return true;
}
inline bool others_may_help() {
  return std::any_of(streams.begin(), streams.end(),
                     [](Stream const* stream) { return !stream->operations.empty() && stream->operations.front().ready; });
}
// Runs operations of any streams until `done`. Where only another thread can help, waits for it, up to a minute.
template <class Done>
void run_until(Done const& done) {
  std::unique_lock lock{mutex};
  auto last = std::chrono::steady_clock::now();
  while (!done()) {
    if (run_one()) {
      last = std::chrono::steady_clock::now();
      continue;
    }
    if (!others_may_help()) stuck("streams wait for each other");
    if (std::chrono::steady_clock::now() - last > std::chrono::minutes{1}) stuck("streams wait for what no thread does");
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}
// Time passes: streams go on by themselves, a little where they are deferred. Call it with the lock held.
inline void go_on() {
  for (std::uint64_t steps = deferred ? draw_stream() % 4 : ~std::uint64_t{0}; steps > 0 && run_one(); --steps) {}
}
inline void put(Stream& to, Operation operation) {
  Locked const locked{mutex};
  if (to.captured) return to.captured->operations.push_back(std::move(operation));
  to.operations.push_back(std::move(operation));
  while (!deferred && !to.operations.empty() && run_one()) {}
}
template <class F>
void enqueue(CUstream_st* stream, F&& run) {
  put(of(stream), {std::forward<F>(run)});
}
// PARALLAX_EMULATOR_FAILS=n: the program's n-th allocation fails. Tests set it.
inline std::atomic<std::int64_t> failing_allocation = [] {
  char const* const given = std::getenv("PARALLAX_EMULATOR_FAILS");
  return given ? std::strtoll(given, nullptr, 10) : 0;
}();
inline std::atomic<std::int64_t> asked{0};

inline cudaError_t take(void** block, std::size_t bytes, int device, std::shared_ptr<Pool const> pool = nullptr) {
  if (cudaError_t const error = take_error()) return error;
  if (++asked == failing_allocation) return answer(cudaErrorMemoryAllocation);
  *block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!*block) return answer(cudaErrorMemoryAllocation);
  std::memset(*block, 0xCD, bytes);
  Locked const locked{mutex};
  pool_allocations += pool != nullptr;
  memory[static_cast<std::byte const*>(*block)] = {bytes, device, std::move(pool)};
  ++blocks_in_use, ++allocations;
  return cudaSuccess;
}
// Takes note that a call gives a block back, of the host or of a device. With the lock held.
inline void say_goodbye(void* block, bool pinned) {
  auto const found = memory.find(static_cast<std::byte const*>(block));
  if (found == memory.end()) stuck("memory is given back that was never taken, or was given back before");
  if (found->second.leaves) stuck("memory is given back again that a stream has been told to give back");
  if ((found->second.device == of_host) != pinned) stuck("pinned memory is given back as a device's, or a device's as pinned");
  found->second.leaves = true;
}
// Gives it back, poisoned for those who use it still. With the lock held.
inline void give_back(void* block) {
  auto const found = memory.find(static_cast<std::byte const*>(block));
  if (found == memory.end()) stuck("memory is given back that was given back before, as by a graph that is launched again");
  std::memset(block, 0xCD, found->second.bytes);
  memory.erase(found);
  --blocks_in_use;
  std::free(block);
}
inline GraphMemory::~GraphMemory() {
  for (auto const& [block, given_back] : blocks) give_back(block);
}
// Of a block that was taken in the stream: where that is captured, it is the graph's.
inline cudaError_t taken_in(CUstream_st* stream, void* block, cudaError_t status) {
  Locked const locked{mutex};
  if (status == cudaSuccess && of(stream).captured) of(stream).captured->memory->blocks[block] = false;
  return status;
}
// Whether a call that would end in a capture of the stream must fail: of what waits for it, or looks.
inline cudaError_t check_not_captured(CUstream_st* stream) {
  return answer(of(stream).captured ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}
// The block that a byte is of, or null where it is of none: memory of the program. With the lock held.
inline Memory const* block_of(void const* at) {
  auto const* const byte = static_cast<std::byte const*>(at);
  auto after = memory.upper_bound(byte);
  if (after == memory.begin()) return nullptr;
  auto const& [begin, block] = *--after;
  return byte < begin + block.bytes ? &block : nullptr;
}
// Whether a device may touch it, as a peer's kernels do. With the lock held.
inline bool visible(void const* at, int device) {
  Memory const* const block = block_of(at);
  return !block || !block->pool || block->device == device || block->pool->peers[static_cast<std::size_t>(device)];
}
// Whether kernels that a device launches itself may touch it: of cudaMalloc's memory that of no other device, for nobody here
// enables peers. With the lock held.
inline bool own(void const* at, int device) {
  Memory const* const block = block_of(at);
  return !block || block->device == of_host || (block->pool ? visible(at, device) : block->device == device);
}
inline bool is_device(int device) { return device >= 0 && device < devices; }

}  // namespace emulator

struct CUevent_st {
  std::shared_ptr<emulator::Event> state = std::make_shared<emulator::Event>();
  int device = emulator::current_device;
  bool timed = true;
};
struct CUmemPoolHandle_st {
  std::shared_ptr<emulator::Pool> state = std::make_shared<emulator::Pool>();
};

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
struct cudaDeviceProp {
  char name[256];
  int major, minor;
};
struct cudaPointerAttributes {
  int device;
};
struct cudaMemAccessDesc {
  cudaMemLocation location;
  cudaMemAccessFlags flags;
};

inline char const* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    default: return "cudaError";
  }
}
inline char const* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : error == cudaSuccess ? "no error" : "an error";
}
inline cudaError_t cudaGetLastError() { return std::exchange(emulator::last_error.error, cudaSuccess); }
inline cudaError_t cudaPeekAtLastError() { return emulator::last_error.error; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = emulator::current_device;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  if (!emulator::is_device(device)) return emulator::answer(cudaErrorInvalidDevice);
  emulator::current_device = device;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulator::devices;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!emulator::is_device(device)) return emulator::answer(cudaErrorInvalidDevice);
  *properties = {"emulator", 0, 0};
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 12040;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!emulator::is_device(device) || !emulator::is_device(peer)) return emulator::answer(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!emulator::is_device(device)) return emulator::answer(cudaErrorInvalidDevice);
  *value = attribute == cudaDevAttrMultiProcessorCount ? emulator::multiprocessors : emulator::has_pools;
  return emulator::take_untold_error();
}

// What is no block of the runtime's has no device.
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* at) {
  emulator::Locked const locked{emulator::mutex};
  emulator::Memory const* const block = emulator::block_of(at);
  attributes->device = !block ? -2 : block->device == emulator::of_host ? block->taken_on : block->device;
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return emulator::take(memory, bytes, emulator::current_device);
}
// All that any stream of the current device was given before. While one of them is captured nothing can wait for all.
inline cudaError_t cudaDeviceSynchronize() {
  auto const left = std::make_shared<std::size_t>(0);
  {
    emulator::Locked const locked{emulator::mutex};
    for (emulator::Stream const* stream : emulator::streams)
      if (stream->captured && stream->device == emulator::current_device)
        return emulator::answer(cudaErrorStreamCaptureUnsupported);
    ++emulator::synchronizations;
    for (emulator::Stream* stream : emulator::streams) {
      if (stream->operations.empty() || stream->device != emulator::current_device) continue;
      ++*left;
      stream->operations.push_back({[left] { --*left; }});
    }
  }
  emulator::run_until([&] { return *left == 0; });
  return emulator::take_untold_error();
}

// Free at once, where the runtime may wait for the device.
inline cudaError_t cudaFree(void* memory) {
  if (!memory) return cudaSuccess;
  emulator::Locked const locked{emulator::mutex};
  emulator::say_goodbye(memory, false);
  emulator::give_back(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  cudaError_t const status = emulator::take(memory, bytes, emulator::of_host);
  emulator::Locked const locked{emulator::mutex};
  emulator::host_allocations += status == cudaSuccess;
  return status;
}
inline cudaError_t cudaFreeHost(void* memory) {
  if (!memory) return cudaSuccess;
  emulator::Locked const locked{emulator::mutex};
  emulator::say_goodbye(memory, true);
  emulator::give_back(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t stream) {
  if (cudaError_t const error = emulator::check_handle(stream)) return error;
  auto const pool = std::make_shared<emulator::Pool>();  // that of the stream's device, which gives nobody access
  pool->device = emulator::of(stream).device;
  return emulator::taken_in(stream, *memory, emulator::take(memory, bytes, pool->device, pool));
}
inline cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  if (cudaError_t const error = emulator::check_handle(stream)) return error;
  cudaError_t const status = emulator::take(memory, bytes, pool->state->device, pool->state);
  return emulator::taken_in(stream, *memory, status);
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  if (cudaError_t const error = emulator::check_handle(stream)) return error;
  if (!memory) return cudaSuccess;
  if (auto* const captured = emulator::of(stream).captured) {
    auto const found = captured->memory->blocks.find(memory);
    if (found == captured->memory->blocks.end()) emulator::stuck("a graph gives back memory that it has not taken");
    if (std::exchange(found->second, true)) emulator::stuck("a graph gives back memory twice");
    emulator::enqueue(stream,
                      [memory] { std::memset(memory, 0xCD, emulator::memory.at(static_cast<std::byte*>(memory)).bytes); });
    return cudaSuccess;
  }
  {
    emulator::Locked const locked{emulator::mutex};
    emulator::say_goodbye(memory, false);
  }
  emulator::enqueue(stream, [memory] { emulator::give_back(memory); });
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, cudaMemPoolProps const* properties) {
  if (cudaError_t const error = emulator::take_error()) return error;
  if (!emulator::is_device(properties->location.id)) return emulator::answer(cudaErrorInvalidDevice);
  *pool = new CUmemPoolHandle_st;
  (*pool)->state->device = properties->location.id;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete pool;  // what was taken from it keeps what it needs
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, cudaMemAccessDesc const* list, std::size_t count) {
  if (cudaError_t const error = emulator::take_error()) return error;
  emulator::Locked const locked{emulator::mutex};
  for (std::size_t i = 0; i < count; ++i) {
    if (!emulator::is_device(list[i].location.id)) return emulator::answer(cudaErrorInvalidDevice);
    pool->state->peers[static_cast<std::size_t>(list[i].location.id)] = list[i].flags == cudaMemAccessFlagsProtReadWrite;
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

inline cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  {
    emulator::Locked const locked{emulator::mutex};
    emulator::copies_to_host += kind == cudaMemcpyDeviceToHost;
    emulator::copies += bytes > 0;
    if (kind != cudaMemcpyDeviceToDevice) emulator::bus_bytes += static_cast<std::int64_t>(bytes);
  }
  emulator::enqueue(stream, [=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, void const* from, std::size_t from_pitch,
                                     std::size_t bytes, std::size_t rows, cudaMemcpyKind, cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  if (bytes > to_pitch || bytes > from_pitch) return emulator::answer(cudaErrorInvalidValue);
  {
    emulator::Locked const locked{emulator::mutex};
    emulator::copies += bytes * rows > 0;
  }
  emulator::enqueue(stream, [=] {
    for (std::size_t i = 0; i < rows; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * to_pitch, static_cast<std::byte const*>(from) + i * from_pitch, bytes);
  });
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  {
    emulator::Locked const locked{emulator::mutex};
    emulator::copies += bytes > 0;
  }
  emulator::enqueue(stream, [=] {
    if (bytes > 0) std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (cudaError_t const error = emulator::take_error()) return error;
  auto* const made = new emulator::Stream;
  emulator::Locked const locked{emulator::mutex};
  emulator::streams.push_back(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  if (cudaError_t const error = emulator::check_not_captured(stream)) return error;
  {
    emulator::Locked const locked{emulator::mutex};
    ++emulator::synchronizations;
  }
  emulator::run_until([&] { return emulator::of(stream).operations.empty(); });
  return cudaSuccess;
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  if (cudaError_t const error = emulator::check_not_captured(stream)) return error;
  emulator::Locked const locked{emulator::mutex};
  emulator::go_on();
  return emulator::answer(emulator::of(stream).operations.empty() ? cudaSuccess : cudaErrorNotReady);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return emulator::answer(cudaErrorInvalidResourceHandle);
  if (cudaError_t const error = emulator::check_handle(stream)) return error;
  emulator::Locked const locked{emulator::mutex};
  emulator::Stream& left = emulator::of(stream);
  left.destroyed = true;
  emulator::past_streams.emplace_back(&left);
  if (left.operations.empty()) std::erase(emulator::streams, &left);
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (cudaError_t const error = emulator::take_error()) return error;
  *event = new CUevent_st;
  (*event)->timed = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  emulator::Locked const locked{emulator::mutex};
  delete event;  // what is in a stream keeps what it needs
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  if (emulator::of(stream).captured)
    emulator::stuck("an event is recorded in a stream that is captured, which is not modelled");
  std::shared_ptr<emulator::Event> marked;
  std::uint64_t record = 0;
  {
    emulator::Locked const locked{emulator::mutex};
    if (event->device != emulator::of(stream).device) return emulator::answer(cudaErrorInvalidResourceHandle);
    marked = event->state;
    record = ++marked->recorded;
  }
  emulator::enqueue(stream, [=] { marked->reached = std::max(marked->reached, record); });
  return cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned = 0) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  if (emulator::of(stream).captured) emulator::stuck("a stream that is captured waits for an event, which is not modelled");
  emulator::Operation wait;
  {
    emulator::Locked const locked{emulator::mutex};
    wait.awaits = event->state;
    wait.record = event->state->recorded;
  }
  emulator::put(emulator::of(stream), std::move(wait));
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::shared_ptr<emulator::Event const> awaited;
  std::uint64_t record = 0;  // the last one so far
  {
    emulator::Locked const locked{emulator::mutex};
    awaited = event->state;
    record = awaited->recorded;
    ++emulator::event_waits;
    emulator::event_stalls += awaited->reached < record;
  }
  emulator::run_until([&] { return awaited->reached >= record; });
  return emulator::take_untold_error();
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (cudaError_t const error = emulator::take_error()) return error;
  emulator::Locked const locked{emulator::mutex};
  emulator::go_on();
  return emulator::answer(event->state->reached >= event->state->recorded ? cudaSuccess : cudaErrorNotReady);
}
// Of events of one device that tell the time, and that their streams have come to.
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  emulator::Locked const locked{emulator::mutex};
  for (CUevent_st const* event : {from, to})
    if (!event->timed || event->state->recorded == 0 || event->device != from->device)
      return emulator::answer(cudaErrorInvalidResourceHandle);
  for (CUevent_st const* event : {from, to})
    if (event->state->reached < event->state->recorded) return emulator::answer(cudaErrorNotReady);
  *milliseconds = 1;  // time does not pass here
  return cudaSuccess;
}

// Graphs of one stream: what was put in it between two calls, which a launch puts in a stream again. Events within a capture, by
// which other streams would join it, are not modelled. What a graph takes of memory, it gives back.
struct CUgraph_st : emulator::Captured {};
struct CUgraphExec_st : emulator::Captured {};
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed };

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  emulator::Locked const locked{emulator::mutex};
  if (!stream || emulator::of(stream).captured) return emulator::answer(cudaErrorIllegalState);
  emulator::of(stream).captured = new CUgraph_st;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  emulator::Locked const locked{emulator::mutex};
  if (!stream || !emulator::of(stream).captured) return emulator::answer(cudaErrorIllegalState);
  *graph = static_cast<cudaGraph_t>(std::exchange(emulator::of(stream).captured, nullptr));
  for (auto const& [block, given_back] : (*graph)->memory->blocks)
    if (!given_back) emulator::stuck("a graph keeps memory that it has taken, and could be launched once");
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  if (cudaError_t const error = emulator::take_error()) return error;
  *made = new CUgraphExec_st{{graph->operations, graph->memory}};
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (cudaError_t const error = emulator::take_error(stream)) return error;
  if (cudaError_t const error = emulator::check_not_captured(stream)) return error;  // of graphs within graphs there are none
  for (emulator::Operation const& operation : graph->operations)
    emulator::put(emulator::of(stream), operation.again ? operation.again() : operation);
  emulator::enqueue(stream, [memory = graph->memory] {});
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  emulator::Locked const locked{emulator::mutex};
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  emulator::Locked const locked{emulator::mutex};
  delete graph;
  return cudaSuccess;
}
