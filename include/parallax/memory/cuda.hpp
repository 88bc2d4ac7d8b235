// Memory of a CUDA device: the memory space of tables, pinned memory's space, and the queue to order work on a device.
// Includers are the kernels' room, communicators of device memory, and programs with a queue for them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/detail/memory/cuda/resource.hpp"
#include "parallax/detail/memory/cuda/runtime.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// Memory of the runtime's. Giving back waits for the device, perhaps busy with work on it: two ranks on one device might so
// wait for each other, and buffers put it off (see Buffer).
template <bool of_host>
struct RuntimeMemory {
  using axis = space_axis;
  static constexpr bool host_readable = of_host, gives_back_late = true;

  // Returns `bytes` on the current device, or of pinned memory of the host. Throws Error (out_of_memory, device).
  static void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    if constexpr (of_host) device::check(cudaMallocHost(&memory, bytes), "cudaMallocHost");
    else device::check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  // Waits until the block's device has done all its work, and gives the block back; failures are ignored.
  static void deallocate(void* memory, std::size_t) noexcept {
    device::OnDevice const its{device::device_of(memory)};
    device::ignore(cudaDeviceSynchronize());
    device::ignore(of_host ? cudaFreeHost(memory) : cudaFree(memory));
  }
};

}  // namespace detail

// Memory of the current device for long-lived data: tables, slots, scratch kept by steps. The runtime's, or from a resource of
// the user's. An option of variables: `Variable<Sparse, CudaSpace>`. Rows and slots then lie on the device, and
// `RowOps<CudaSpace>` works on them.
class CudaSpace : public detail::RuntimeMemory<false> {
  using Runtime = detail::RuntimeMemory<false>;

 public:
  // The name of this space in texts with a variable's type.
  static constexpr std::string_view name = "CudaSpace";

  // Draws memory of the current device from `resource` from now on, in the order of `stream`, and each time waits for the
  // stream; {} is the runtime again. For the whole process, whose threads take turns; each device has its own. Resource and
  // stream are the device's, and outlive all memory from them. Throws Error (misuse) while memory of this device is in use.
  static void draw_from(device::AnyResource resource, cudaStream_t stream = nullptr) {
    std::lock_guard const lock{sources().mutex};
    Source& from = sources().of_device[device::current_device()];
    if (from.blocks > 0)
      throw Error{Errc::misuse, -1, "CudaSpace::draw_from", "", std::to_string(from.blocks) + " blocks are in use"};
    from.resource = resource;
    from.stream = stream;
  }

  // Local. Returns `bytes` on the current device, at a multiple of 256 bytes, contents indeterminate; usable by any stream at
  // once, for a resource's stream is waited for. Throws Error (out_of_memory, device) of the runtime, or what a resource
  // throws, as it is.
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
  // Local. Waits for all work on the block's device, as it may still use the block, and gives it back. Whichever device is the
  // current one. `bytes` as given to `allocate`.
  static void deallocate(void* memory, std::size_t bytes) noexcept {
    device::OnDevice const its{device::device_of(memory)};
    Source* from = nullptr;  // unchanged while this block is in use
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
  // The origin of a device's blocks, and the number of them in use.
  struct Source {
    device::AnyResource resource;
    cudaStream_t stream = nullptr;
    std::size_t blocks = 0;
  };
  // The process's sources, changed under the mutex.
  struct Sources {
    std::mutex mutex;
    std::map<int, Source> of_device;
  };
  static Sources& sources() {
    static Sources all;
    return all;
  }
};

// Memory of the host, copied to and from by the device itself, in the order of a stream. Uploads, downloads of findings and the
// staging of communicators keep their bytes in it, by Buffer. Allocating it is slow, for the system fixes its pages; so it is
// kept from step to step.
struct PinnedSpace : detail::RuntimeMemory<true> {
  // The space's name, for texts.
  static constexpr std::string_view name = "PinnedSpace";
};

// The stream of a trainer's own work, if other than the library's: exchanges then overlap with a backward pass. A trainer
// makes one for each rank, has its queue refer to it, and names the stream by `follow`.
//   calls     of a session work behind all earlier work of the trainer's stream; later work comes behind the calls
//   start     copies gradients in the trainer's stream. Exchanges wait for these copies, and the trainer's work for nothing
//   poll      waits for nothing of the trainer's, and nothing of the trainer's for it
// Owns two events of the device current at its making. Outlives the queues that refer to it. One thread at a time.
class CallerStream {
 public:
  CallerStream() = default;
  CallerStream(CallerStream&&) = delete;

  // Local, between calls: from now on the trainer works in `stream`, of the same device, which lasts until the next `follow` or
  // as long as the session. Before the first one it is the queue's own. A program that changes streams puts them in order.
  void follow(cudaStream_t stream) {
    stream_ = stream;
    follows_ = true;
  }

  // Called by a session: later work of `own` comes behind the earlier work of the trainer's stream. Throws Error (device).
  void precede(cudaStream_t own) {
    if (follows_ && stream_ != own) order(stream_, given_, own);
  }
  // Called by a session: later work of the trainer's stream comes behind the earlier work of `own`. Throws Error (device).
  void succeed(cudaStream_t own) {
    if (follows_ && stream_ != own) order(own, done_, stream_);
  }
  // Called by a session: puts operations on rows into the trainer's stream for now, if `lent` and `follow` named one.
  void lend(bool lent) { lent_ = lent && follows_; }
  // Called by a session: returns true if the trainer works in another stream than `own`.
  bool is_elsewhere(cudaStream_t own) const { return follows_ && stream_ != own; }
  // Returns the stream for operations of a queue; its own is `own`.
  cudaStream_t at_hand(cudaStream_t own) const { return lent_ ? stream_ : own; }

 private:
  // Makes later work of `second` wait for the earlier work of `first`.
  static void order(cudaStream_t first, CudaEvent& reached, cudaStream_t second) {
    reached.record(first);
    device::check(cudaStreamWaitEvent(second, reached.get(), 0), "cudaStreamWaitEvent");
  }

  CudaEvent given_, done_;
  cudaStream_t stream_ = nullptr;
  bool follows_ = false, lent_ = false;
};

// The waiter for a device in a rank's name: a communicator of the device's memory, under its deadline. Work of a stream may
// wait for a peer that never comes, and the runtime would wait as long.
class DeviceWaiter {
 public:
  // Waits until the event is reached. Throws the reason of an abort; Error (timeout) past the deadline; Error (device).
  virtual void await(CudaEvent const& event) = 0;

 protected:
  ~DeviceWaiter() = default;
};

// Does not own. The stream for work of a device, and the source of its scratch: a CudaPool, or a resource of the user's. Made
// while the stream's device is the current one. Handed to sessions and communicators of a device, which copy it; stream and
// resource outlive them.
struct CudaQueue {
  // The stream, ordering all work; null is the default stream.
  cudaStream_t stream = nullptr;
  // The source of scratch of steps; an empty one throws Error (misuse) at the first need. With a caller it gives and takes in
  // the order of two streams, as a CudaPool can.
  device::AnyResource memory = {};
  // The number of the stream's device, made the thread's again by make_current.
  int device = device::current_device();
  // The holder of the trainer's stream; null if the trainer works in this queue's.
  CallerStream* caller = nullptr;
  // The waiter in this rank's name; null for waits by the runtime, without a deadline. Set by communicators, in the queue they
  // show.
  DeviceWaiter* waiter = nullptr;

  // Returns this queue, waited for by `who`, which must outlive the copy.
  CudaQueue awaited_by(DeviceWaiter& who) const {
    CudaQueue queue = *this;
    queue.waiter = &who;
    return queue;
  }
  // Blocks the thread until an event of the queue is reached. Throws the waiter's errors; without one there is no deadline.
  void await(CudaEvent const& event) const {
    if (waiter) waiter->await(event);
    else event.synchronize();
  }
  // Blocks the thread until the stream has done all its work. Throws as `await`, and Error (device; misuse in a captured step).
  void wait() const {
    CudaEvent done;
    done.record(stream);
    await(done);
  }
  // Returns the present stream of operations on rows: the caller's while a `start` copies gradients, else the queue's.
  cudaStream_t at_hand() const { return caller ? caller->at_hand(stream) : stream; }
};

// Makes the queue's device the calling thread's. If it fails, so does work the thread puts in the queue. Called by a session
// whenever it is entered, on the entering thread.
inline void make_current(CudaQueue const& queue) noexcept {
  if (cudaSetDevice(queue.device) != cudaSuccess) device::forget_last_error();
}

// Puts later work of the queue behind the earlier work of its caller's stream, unless a graph is captured. Called by a session
// as a call begins. Throws Error (device).
inline void begin_call(CudaQueue const& queue) {
  if (queue.caller && !device::is_captured(queue.stream)) queue.caller->precede(queue.stream);
}
// Puts later work of the caller's stream behind the earlier work of the queue, unless a graph is captured. Called by a session
// as a call ends. Throws Error (device).
inline void end_call(CudaQueue const& queue) {
  if (queue.caller && !device::is_captured(queue.stream)) queue.caller->succeed(queue.stream);
}
// Puts operations on rows into the caller's stream, or, unless `lent`, the queue's. Called around the copies of a `start`.
inline void lend_caller(CudaQueue const& queue, bool lent) noexcept {
  if (queue.caller) queue.caller->lend(lent);
}

}  // namespace parallax
