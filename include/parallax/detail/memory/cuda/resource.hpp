// Scratch on a CUDA device, in the order of a stream: resources, and arrays taken from them. Sessions and operations get theirs
// by a queue; programs take a pool and arrays of their own.
#pragma once

#include <cuda_runtime_api.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/detail/memory/cuda/runtime.hpp"

namespace parallax::inline v0_2 {
namespace device {

// A source of scratch, like RMM's resources: memory is used, and given back, in the order of a stream. `alignment` is a power
// of two, at most 256. `deallocate` has the arguments of the `allocate` before.
template <class R>
concept DeviceResource = requires(R& resource, void* memory, std::size_t bytes, std::size_t alignment, cudaStream_t stream) {
  { resource.allocate(bytes, alignment, stream) } -> std::same_as<void*>;
  { resource.deallocate(memory, bytes, alignment, stream) }
  noexcept;
};

// A reference to any resource, which outlives this and all copies of it; an empty one throws Error (misuse), others the
// resource's errors. Resources of queues are called by the rank's thread, in the order of its stream.
class AnyResource {
 public:
  AnyResource() = default;
  // Refers to `resource`, converting from it, for arguments of type AnyResource.
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

  // Returns true if there is a resource.
  explicit operator bool() const { return resource_ != nullptr; }
  // Local. Returns `bytes` of the resource's memory, for work put in `stream` from now on.
  void* allocate(std::size_t bytes, std::size_t alignment, cudaStream_t stream) const {
    if (!resource_) throw Error{Errc::misuse, -1, "CudaQueue", "", "it was made without a resource for scratch"};
    return allocate_(resource_, bytes, alignment, stream);
  }
  // Local. Gives back a block of this resource's `allocate`, once `stream` has come so far; never called on an empty one.
  void deallocate(void* memory, std::size_t bytes, std::size_t alignment, cudaStream_t stream) const noexcept {
    deallocate_(resource_, memory, bytes, alignment, stream);
  }

 private:
  void* resource_ = nullptr;
  void* (*allocate_)(void*, std::size_t, std::size_t, cudaStream_t) = nullptr;
  void (*deallocate_)(void*, void*, std::size_t, std::size_t, cudaStream_t) noexcept = nullptr;
};

}  // namespace device

// A pool of the runtime's on the current device, with an owner; it keeps returned memory. Its memory is open to all devices
// that reach this one, for NCCL, which writes into memory of other devices of its process. Movable: one moved from no longer
// allocates, and an AnyResource still refers to it. Error (device) if the device has no pools, like shares of some virtual
// machines and of Windows: a queue there is given a resource of the user's.
class CudaPool {
 public:
  // Makes the pool. Its release threshold has no limit, so a wait of the stream gives nothing back to the system.
  CudaPool() {
    int const device = device::current_device();
    int supported = 1, devices = 0;
    if (cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device) != cudaSuccess) device::forget_last_error();
    if (!supported)
      throw Error{Errc::device, -1, "CudaPool", "",
                  "device " + std::to_string(device) + " has no memory pools: give the CudaQueue a resource of your own"};
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    device::check(cudaMemPoolCreate(&own_.object, &properties), "cudaMemPoolCreate");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    device::ignore(cudaMemPoolSetAttribute(own_.object, cudaMemPoolAttrReleaseThreshold, &keep));
    device::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    for (int peer = 0; peer < devices; ++peer) open_to(peer, device);
  }

  // Local. Returns `bytes` for work put in `stream` from now on, at a multiple of 256 bytes, for any alignment; null for none.
  // Throws Error (out_of_memory, device).
  void* allocate(std::size_t bytes, std::size_t /*alignment*/, cudaStream_t stream) {
    void* memory = nullptr;
    if (bytes > 0) device::check(cudaMallocFromPoolAsync(&memory, bytes, own_.object, stream), "cudaMallocFromPoolAsync");
    return memory;
  }
  // Local. Gives back a block in the order of `stream`, without waiting; null is none.
  void deallocate(void* memory, std::size_t, std::size_t, cudaStream_t stream) noexcept {
    if (memory) device::ignore(cudaFreeAsync(memory, stream));
  }

 private:
  // Lets device `peer` read and write the pool's memory, if the hardware can.
  void open_to(int peer, int device) {
    int reaches = 0;
    if (peer != device) device::check(cudaDeviceCanAccessPeer(&reaches, peer, device), "cudaDeviceCanAccessPeer");
    if (!reaches) return;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    device::check(cudaMemPoolSetAccess(own_.object, &access, 1), "cudaMemPoolSetAccess");
  }

  device::OwnedObject<cudaMemPool_t, cudaMemPoolDestroy> own_;
};

// An arena, without ownership. Hands out one block of memory from its beginning to its end, and all of it again after `reset`:
// the scratch of a step, fit for a graph's capture, for nothing is allocated. Giving back a block does nothing.
class CudaArena {
 public:
  // Hands out `bytes` of `block`, in device memory, which outlives the arena. It begins at a multiple of all alignments to be
  // asked for.
  CudaArena(void* block, std::size_t bytes) : begin_{static_cast<std::byte*>(block)}, bytes_{bytes} {}

  // Local. Returns the next `bytes` of the block, at a multiple of `alignment` from its beginning; constant time. Throws Error
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
  // Frees all blocks; the caller sees to it that the device is done with them.
  void reset() noexcept { used_ = 0; }

  // Returns the bytes from the block's beginning to the end of the last piece, gaps of alignment included; 0 after `reset`.
  std::size_t used() const noexcept { return used_; }
  // Returns the largest used() so far, lowered by no `reset`: the bytes of a block for the same steps.
  std::size_t most_used() const noexcept { return most_; }
  // Returns the number of bytes of the whole block.
  std::size_t size() const noexcept { return bytes_; }

 private:
  std::byte* begin_;
  std::size_t bytes_, used_ = 0, most_ = 0;
};

// An owner of an array on the device, of a resource that outlives it, used and given back in the order of one stream. `resize`
// keeps nothing of the contents and allocates only when the size exceeds every earlier one. Strong guarantee. Scratch of row
// operations is taken in it for one call; programs take it for rows and gradients.
template <class T>
  requires std::is_trivially_copyable_v<T>
class DeviceBuffer {
 public:
  // Makes a buffer of `size` elements, indeterminate. Throws the resource's errors, and Error (misuse) of an empty resource
  // unless `size` is 0.
  DeviceBuffer(device::AnyResource resource, cudaStream_t stream, std::size_t size = 0) : resource_{resource}, stream_{stream} {
    resize(size);
  }
  // Takes over the array of `other`, left empty, with its resource and stream.
  DeviceBuffer(DeviceBuffer&& other) noexcept : resource_{other.resource_}, stream_{other.stream_} { swap(other); }
  // Exchanges arrays, resources and streams; the array of this buffer goes with `other`.
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer() { release(); }

  // Makes the size `size` elements. Beyond the capacity the old array is given back in the order of the stream, without a wait.
  // Throws the resource's errors, and Error (out_of_memory) if the bytes cannot be counted.
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

  // Returns the first element, in device memory; null as long as nothing was allocated.
  T* data() noexcept { return data_; }
  // Returns the first element for reading; null as long as nothing was allocated.
  T const* data() const noexcept { return data_; }
  // Returns the number of elements in use, as the last `resize` has set it.
  std::size_t size() const noexcept { return size_; }
  // Returns the most elements for a `resize` without an allocation.
  std::size_t capacity() const noexcept { return capacity_; }
  // Returns the stream of the array; other streams wait for it before they use the array.
  cudaStream_t stream() const noexcept { return stream_; }

  // Copies `count` elements, at most size(), from the host, in the order of the stream; the host's memory must stay until
  // then. Throws Error (device).
  void copy_from(T const* host, std::size_t count) {
    device::check(cudaMemcpyAsync(data_, host, count * sizeof(T), cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  }
  // Copies `count` elements, at most size(), to the host: there once the stream has come so far. Throws Error (device).
  void copy_to(T* host, std::size_t count) const {
    device::check(cudaMemcpyAsync(host, data_, count * sizeof(T), cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  }

 private:
  // Exchanges everything; `other` gives back, in its stream, this buffer's array.
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
