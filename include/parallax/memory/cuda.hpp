// Memory of a CUDA device: the memory space of tables, and the resources that scratch comes from, in the order of a stream.
// Includers are the kernels' room, communicators that carry device memory, and programs that make a queue for them.
#pragma once

#include <cuda_runtime_api.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/memory/space.hpp"

namespace parallax {
namespace device {

// A call that did not succeed leaves its status behind as the thread's last error, which CUB, Thrust and a user's check of a
// launch take for one of theirs. Called by whoever has such a status in hand and knows what to do about it.
inline void forget_last_error() noexcept { static_cast<void>(cudaGetLastError()); }
// Called on the status of a call whose failure nobody could be told, as of giving back: it is ignored, and forgotten.
inline void ignore(cudaError_t status) noexcept {
  if (status != cudaSuccess) forget_last_error();
}

// What an error of the runtime's is called; where the driver is too old, also the versions of CUDA that do not go together.
PARALLAX_COLD inline std::string error_text(cudaError_t status) {
  std::string text = std::string{cudaGetErrorName(status)} + ": " + cudaGetErrorString(status);
  int driver = 0, runtime = 0;
  if (status != cudaErrorInsufficientDriver || cudaDriverGetVersion(&driver) != cudaSuccess ||
      cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    return text;
  auto const version = [](int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); };
  return text + " (the driver is for CUDA " + version(driver) + ", the program for " + version(runtime) + ")";
}

// Called on the status of every call of the runtime's whose failure matters. Throws Error (out_of_memory where memory lacked,
// else device) that names `call`, unless it succeeded; the thread's last error is forgotten first.
inline void check(cudaError_t status, char const* call) {
  if (status == cudaSuccess) return;
  forget_last_error();
  throw Error{status == cudaErrorMemoryAllocation ? Errc::out_of_memory : Errc::device, -1, call, "", error_text(status)};
}

// Where scratch comes from, like RMM's resources: memory is used, and given back, in the order of a stream. `alignment` is a
// power of two, at most 256. `deallocate` is told what `allocate` was.
template <class R>
concept DeviceResource = requires(R& resource, void* memory, std::size_t bytes, std::size_t alignment, cudaStream_t stream) {
  { resource.allocate(bytes, alignment, stream) } -> std::same_as<void*>;
  { resource.deallocate(memory, bytes, alignment, stream) }
  noexcept;
};

// Does not own. Any resource, which outlives this and all copies of it; an empty one throws Error (misuse), others what the
// resource throws. Resources of queues are called by the rank's thread, in the order of its stream.
class AnyResource {
 public:
  AnyResource() = default;
  // Refers to `resource`, converting from it, so that one can be handed over where an AnyResource is asked for.
  template <class R>
    requires(!std::same_as<R, AnyResource> && DeviceResource<R>)
  AnyResource(R& resource)
      : resource_{&resource},
        allocate_{[](void* r, std::size_t bytes, std::size_t alignment, cudaStream_t stream) {
          return static_cast<R*>(r)->allocate(bytes, alignment, stream);
        }},
        deallocate_{[](void* r, void* memory, std::size_t bytes, std::size_t alignment, cudaStream_t stream) noexcept {
          static_cast<R*>(r)->deallocate(memory, bytes, alignment, stream);
        }} {}

  // Whether there is a resource.
  explicit operator bool() const { return resource_ != nullptr; }
  // Local. `bytes` of the resource's memory, for work that is put in `stream` from now on.
  void* allocate(std::size_t bytes, std::size_t alignment, cudaStream_t stream) const {
    if (!resource_) throw Error{Errc::misuse, -1, "CudaQueue", "", "it was made without a resource for scratch"};
    return allocate_(resource_, bytes, alignment, stream);
  }
  // Local. Gives back what `allocate` of this resource returned, once `stream` has come so far; never called on an empty one.
  void deallocate(void* memory, std::size_t bytes, std::size_t alignment, cudaStream_t stream) const noexcept {
    deallocate_(resource_, memory, bytes, alignment, stream);
  }

 private:
  void* resource_ = nullptr;
  void* (*allocate_)(void*, std::size_t, std::size_t, cudaStream_t) = nullptr;
  void (*deallocate_)(void*, void*, std::size_t, std::size_t, cudaStream_t) noexcept = nullptr;
};

// Local. Copies `bytes` in the order of the stream, in the direction that `kind` names. Nothing where there is nothing to
// copy, or it is there. Both ranges stay until the stream has come so far. Throws Error (device).
inline void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes > 0 && to != from) check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
}

// Bytes at a multiple of which the runtime's blocks begin; what buffers ask resources for.
inline constexpr std::size_t device_alignment = 256;  // of whatever the runtime allocates

// The number of the calling thread's device; 0 where there is none.
inline int current_device() noexcept {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) forget_last_error();
  return device;
}
// The number of the device on which a block was made, of its memory or of the host's; the current one where the runtime does
// not know. Called as blocks are given back, which another device's thread may do.
inline int device_of(void const* block) noexcept {
  cudaPointerAttributes known{};
  if (cudaPointerGetAttributes(&known, block) == cudaSuccess && known.device >= 0) return known.device;
  forget_last_error();
  return current_device();
}

// While it lives, a device is the calling thread's current one; then the one before is again.
class OnDevice {
 public:
  // Makes `device` the current one. Where that fails, the calls that follow do.
  explicit OnDevice(int device) noexcept : before_{current_device()}, device_{device} {
    if (device_ != before_) ignore(cudaSetDevice(device_));
  }
  OnDevice(OnDevice const&) = delete;
  OnDevice& operator=(OnDevice const&) = delete;
  ~OnDevice() {
    if (device_ != before_) ignore(cudaSetDevice(before_));
  }

 private:
  int before_, device_;
};

}  // namespace device

namespace detail {

// Memory of the runtime's. Giving back waits for the device, which may have been given work on it: between ranks that share one
// that may be a wait for each other, so that buffers put it off (see Buffer).
template <bool of_host>
struct RuntimeMemory {
  using axis = space_axis;
  static constexpr bool host_readable = of_host, gives_back_late = true;

  // `bytes` on the current device, or of pinned memory of the host. Throws Error (out_of_memory, device).
  static void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if constexpr (of_host) device::check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
    else device::check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  // Waits for the block's device, and gives the block back; what fails is ignored, for nobody could be told.
  static void deallocate(void* memory, std::size_t) noexcept {
    device::OnDevice const its{device::device_of(memory)};
    device::ignore(cudaDeviceSynchronize());
    device::ignore(of_host ? cudaFreeHost(memory) : cudaFree(memory));
  }
};

}  // namespace detail

// Memory of the current device for what lives long: tables, slots, scratch that steps keep. The runtime's, or that of a
// resource of the user's. An option of variables: `Variable<Sparse, CudaSpace>`. Rows and slots then lie on the device, and
// `RowOps<CudaSpace>` works on them.
class CudaSpace : public detail::RuntimeMemory<false> {
  using Runtime = detail::RuntimeMemory<false>;

 public:
  // What texts that spell a variable's type call this space.
  static constexpr std::string_view name = "CudaSpace";

  // From now on memory of the current device comes from `resource`, in the order of `stream`, which is waited for each time;
  // {} is the runtime again. For the whole process, whose threads take turns; each device has its own. Resource and stream are
  // the device's, and outlive whatever they gave. Throws Error (misuse) while memory of this device is in use.
  static void draw_from(device::AnyResource resource, cudaStream_t stream = nullptr) {
    std::lock_guard const lock{sources().mutex};
    Source& from = sources().of_device[device::current_device()];
    if (from.blocks > 0)
      throw Error{Errc::misuse, -1, "CudaSpace::draw_from", "", std::to_string(from.blocks) + " blocks are in use"};
    from.resource = resource;
    from.stream = stream;
  }

  // Local. `bytes` on the current device, at a multiple of 256 bytes, contents indeterminate; usable by any stream at once,
  // for a resource's stream is waited for. Throws what the runtime's memory or the resource throws: Error (out_of_memory,
  // device).
  static void* allocate(std::size_t bytes) {
    std::unique_lock lock{sources().mutex};
    Source& from = sources().of_device[device::current_device()];
    auto const [resource, stream] = std::pair{from.resource, from.stream};
    void* const memory = resource ? resource.allocate(bytes, device::device_alignment, stream) : Runtime::allocate(bytes);
    ++from.blocks;
    lock.unlock();
    if (resource) device::ignore(cudaStreamSynchronize(stream));
    return memory;
  }
  // Local. Gives back a block, after all work on its device is done: it may still use the block. Whichever device is the
  // current one. `bytes` as given to `allocate`.
  static void deallocate(void* memory, std::size_t bytes) noexcept {
    device::OnDevice const its{device::device_of(memory)};
    Source* from = nullptr;  // which stays as it is while this block is in use
    {
      std::lock_guard const lock{sources().mutex};
      from = &sources().of_device[device::current_device()];
    }
    if (from->resource) device::ignore(cudaDeviceSynchronize());
    else Runtime::deallocate(memory, bytes);
    std::lock_guard const lock{sources().mutex};
    if (from->resource) from->resource.deallocate(memory, bytes, device::device_alignment, from->stream);
    --from->blocks;
  }

 private:
  // Where the blocks of a device come from, and how many of them are in use.
  struct Source {
    device::AnyResource resource;
    cudaStream_t stream = nullptr;
    std::size_t blocks = 0;
  };
  // Those of the process, changed under the mutex.
  struct Sources {
    std::mutex mutex;
    std::map<int, Source> of_device;
  };
  static Sources& sources() {
    static Sources all;
    return all;
  }
};

// Memory of the host that the device copies to and from by itself, in the order of a stream. Uploads, downloads of findings
// and the staging of communicators keep their bytes in it, by Buffer. Allocating it is slow, for the system fixes its pages;
// so it is kept from step to step.
struct PinnedSpace : detail::RuntimeMemory<true> {
  // The space's name, for texts.
  static constexpr std::string_view name = "PinnedSpace";
};

// Owns a stream of the current device that does not wait for the default one. Movable. Destroying it does not wait.
class CudaStream {
 public:
  CudaStream() { device::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  // Takes over the stream of `other`, which has none from then on.
  CudaStream(CudaStream&& other) noexcept : stream_{std::exchange(other.stream_, nullptr)} {}
  // Exchanges the streams; that of this object goes with `other`.
  CudaStream& operator=(CudaStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~CudaStream() {
    if (stream_) device::ignore(cudaStreamDestroy(stream_));
  }

  // The stream, valid as long as this object; null of one that was moved from, which is the default stream.
  cudaStream_t get() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Owns an event of the current device that tells no time. Movable. May go while a stream has yet to reach it or waits for it.
class CudaEvent {
 public:
  CudaEvent() { device::check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  // Takes over the event of `other`, which has none from then on.
  CudaEvent(CudaEvent&& other) noexcept : event_{std::exchange(other.event_, nullptr)} {}
  // Exchanges the events; that of this object goes with `other`.
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~CudaEvent() {
    if (event_) device::ignore(cudaEventDestroy(event_));
  }

  // Marks the place that the stream's work has come to; later calls speak of this one alone. Throws Error (device).
  void record(cudaStream_t stream) { device::check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  // Whether all has been done that the stream had to do before the last `record`, asked without waiting; true where there was
  // none. Throws Error (device) where work before it has failed.
  bool reached() const {
    cudaError_t const status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) device::check(status, "cudaEventQuery");
    else device::forget_last_error();
    return status == cudaSuccess;
  }
  // Blocks the thread until the event is reached, without a deadline; a failure shows in later calls.
  void synchronize() const noexcept { device::ignore(cudaEventSynchronize(event_)); }
  // The event, for a stream of the caller's that is to wait for it; valid as long as this object.
  cudaEvent_t get() const noexcept { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Owns a pool of the runtime's on the current device that keeps what it was given back. Its memory is open to all devices that
// reach this one, for NCCL, which writes into memory of other devices of its process. Movable. Error (device) where the device
// has no pools, as shares of some virtual machines and of Windows' have none: a queue is given a resource of the user's there.
class CudaPool {
 public:
  CudaPool() : CudaPool{device::current_device()} {
    int devices = 0;
    device::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    for (int peer = 0; peer < devices; ++peer) open_to(peer, device::current_device());
  }
  // Takes over the pool of `other`, which can no longer allocate. An AnyResource still refers to `other`.
  CudaPool(CudaPool&& other) noexcept : pool_{std::exchange(other.pool_, nullptr)} {}
  // Exchanges the pools; that of this object goes with `other`.
  CudaPool& operator=(CudaPool&& other) noexcept {
    std::swap(pool_, other.pool_);
    return *this;
  }
  ~CudaPool() {
    if (pool_) device::ignore(cudaMemPoolDestroy(pool_));
  }

  // Local. `bytes` for work that is put in `stream` from now on, at a multiple of 256 bytes, whatever the alignment; null for
  // none. Throws Error (out_of_memory, device).
  void* allocate(std::size_t bytes, std::size_t /*alignment*/, cudaStream_t stream) {
    void* memory = nullptr;
    if (bytes > 0) device::check(cudaMallocFromPoolAsync(&memory, bytes, pool_, stream), "cudaMallocFromPoolAsync");
    return memory;
  }
  // Local. Gives back a block in the order of `stream`, without waiting; null is none.
  void deallocate(void* memory, std::size_t, std::size_t, cudaStream_t stream) noexcept {
    if (memory) device::ignore(cudaFreeAsync(memory, stream));
  }

 private:
  // Makes the pool on a device. Its release threshold has no limit, so that a wait of the stream gives nothing back to the
  // system. Delegated to, so that the destructor runs where opening fails.
  explicit CudaPool(int device) {
    int supported = 1;
    if (cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device) != cudaSuccess) device::forget_last_error();
    if (!supported)
      throw Error{Errc::device, -1, "CudaPool", "",
                  "device " + std::to_string(device) + " has no memory pools: give the CudaQueue a resource of your own"};
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    device::check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    device::ignore(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  }
  // Lets device `peer` read and write the pool's memory, where the hardware can.
  void open_to(int peer, int device) {
    int reaches = 0;
    if (peer != device) device::check(cudaDeviceCanAccessPeer(&reaches, peer, device), "cudaDeviceCanAccessPeer");
    if (!reaches) return;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    device::check(cudaMemPoolSetAccess(pool_, &access, 1), "cudaMemPoolSetAccess");
  }

  cudaMemPool_t pool_ = nullptr;
};

// Does not own. Where work of a device is put, and where its scratch comes from: a CudaPool, or a resource of the user's. Made
// while the stream's device is the current one. Handed to sessions and communicators of a device, which copy it; stream and
// resource outlive them.
struct CudaQueue {
  // The stream in whose order all work is put; null is the default stream.
  cudaStream_t stream = nullptr;
  // Where scratch of steps comes from; an empty one throws Error (misuse) at the first need.
  device::AnyResource memory = {};
  // The number of the stream's device, which make_current makes the thread's again.
  int device = device::current_device();
};

// The queue's device becomes the calling thread's. Where that fails, so does what the thread puts in the queue.
// Called by a session whenever it is entered, on the thread that enters.
inline void make_current(CudaQueue const& queue) noexcept {
  if (cudaSetDevice(queue.device) != cudaSuccess) device::forget_last_error();
}

// Does not own. Hands out one block of memory from its beginning to its end, and all of it again after `reset`: the scratch of
// a step, which a graph can capture, for nothing is allocated. Giving back a block does nothing.
class CudaArena {
 public:
  // Hands out `bytes` of `block`, in device memory, which outlives the arena. It begins at a multiple of all alignments that
  // are asked for.
  CudaArena(void* block, std::size_t bytes) : begin_{static_cast<std::byte*>(block)}, bytes_{bytes} {}

  // Local. The next `bytes` of the block, at a multiple of `alignment` from its beginning; constant time. Throws Error
  // (out_of_memory) with the number of bytes that would have sufficed up to here.
  void* allocate(std::size_t bytes, std::size_t alignment, cudaStream_t = {}) {
    std::size_t const at = (used_ + alignment - 1) / alignment * alignment;
    if (at > bytes_ || bytes > bytes_ - at)
      throw Error{Errc::out_of_memory, -1, "CudaArena", "",
                  std::to_string(at + bytes) + " bytes are needed, the block has " + std::to_string(bytes_)};
    used_ = at + bytes;
    most_ = used_ > most_ ? used_ : most_;
    return begin_ + at;
  }
  // Does nothing: blocks are free again by `reset` alone.
  void deallocate(void*, std::size_t, std::size_t, cudaStream_t = {}) noexcept {}
  // What was handed out is free again; the caller sees to it that the device is done with it.
  void reset() noexcept { used_ = 0; }

  // Bytes from the block's beginning to the end of what was handed out last, gaps of alignment included; 0 after `reset`.
  std::size_t used() const noexcept { return used_; }
  // The largest used() so far, which no `reset` lowers: the bytes that a block must have for the same steps.
  std::size_t most_used() const noexcept { return most_; }
  // Bytes of the whole block.
  std::size_t size() const noexcept { return bytes_; }

 private:
  std::byte* begin_;
  std::size_t bytes_, used_ = 0, most_ = 0;
};

// Owns an array on the device, of a resource that outlives it, used and given back in the order of one stream. `resize` keeps
// nothing of the contents and allocates only when the size exceeds every earlier one. Strong guarantee.
// Scratch of row operations is taken in it for one call; programs take it for rows and gradients.
template <class T>
  requires std::is_trivially_copyable_v<T>
class DeviceBuffer {
 public:
  // A buffer of `size` elements, indeterminate. Throws what the resource throws, and Error (misuse) where it is empty and
  // `size` is not 0.
  DeviceBuffer(device::AnyResource resource, cudaStream_t stream, std::size_t size = 0) : resource_{resource}, stream_{stream} {
    resize(size);
  }
  // Takes over the array of `other`, which is left empty, with its resource and stream.
  DeviceBuffer(DeviceBuffer&& other) noexcept : resource_{other.resource_}, stream_{other.stream_} { swap(other); }
  // Exchanges arrays, resources and streams; the array of this buffer goes with `other`.
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer() { release(); }

  // Makes the size `size` elements. Beyond the capacity the old array is given back in the order of the stream, for which
  // nothing waits. Throws what the resource throws, and Error (out_of_memory) where the bytes cannot be counted.
  void resize(std::size_t size) {
    if (size > capacity_) {
      if (size > std::numeric_limits<std::size_t>::max() / sizeof(T))
        throw Error{Errc::out_of_memory, -1, "DeviceBuffer", "", std::to_string(size) + " elements"};
      auto* const fresh = static_cast<T*>(resource_.allocate(size * sizeof(T), device::device_alignment, stream_));
      release();
      data_ = fresh;
      capacity_ = size;
    }
    size_ = size;
  }

  // The first element, in device memory; null as long as nothing was allocated.
  T* data() noexcept { return data_; }
  // The same, for reading.
  T const* data() const noexcept { return data_; }
  // Elements in use, as the last `resize` has set them.
  std::size_t size() const noexcept { return size_; }
  // Elements that a `resize` may name without an allocation.
  std::size_t capacity() const noexcept { return capacity_; }
  // The stream in whose order the array may be used; others wait for it first.
  cudaStream_t stream() const noexcept { return stream_; }

  // Copies `count` elements, at most size(), from the host, in the order of the stream; the host's memory must stay until
  // then. Throws Error (device).
  void copy_from(T const* host, std::size_t count) {
    device::check(cudaMemcpyAsync(data_, host, count * sizeof(T), cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  }
  // The same to the host, whose memory holds them once the stream has come so far.
  void copy_to(T* host, std::size_t count) const {
    device::check(cudaMemcpyAsync(host, data_, count * sizeof(T), cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  }

 private:
  // Exchanges everything; `other` gives back, in its stream, what was this buffer's.
  void swap(DeviceBuffer& other) noexcept {
    std::swap(resource_, other.resource_);
    std::swap(stream_, other.stream_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  // Gives the array back to its resource, in the order of its stream.
  void release() noexcept {
    if (data_) resource_.deallocate(data_, capacity_ * sizeof(T), device::device_alignment, stream_);
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

  device::AnyResource resource_;
  cudaStream_t stream_;
  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace parallax
