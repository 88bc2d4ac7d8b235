// Memory of a CUDA device: the memory space of tables, that of pinned memory, and the queue in whose order work on a device is put.
// Includers are the kernels' room, communicators that carry device memory, and programs that make a queue for them.
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

namespace parallax {

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

// The stream of a trainer's own work, where it is not the one that the library works in: then what travels overlaps with a
// backward pass. A trainer makes one for each rank, has its queue refer to it, and says by `follow` which stream that is.
//   calls     of a session work behind what the trainer's stream was given before; what it is given afterwards comes behind them
//   start     copies gradients in the trainer's stream. What travels waits for these copies, and the trainer's work for nothing
//   poll      waits for nothing of the trainer's, and nothing of the trainer's for it
// Owns two events of the device on which it was made. Outlives the queues that refer to it. One thread at a time.
class CallerStream {
 public:
  CallerStream() = default;
  CallerStream(CallerStream&&) = delete;

  // Local, between calls: from now on the trainer works in `stream`, of the same device, which lasts until the next `follow` or as
  // long as the session. Before the first one it is the queue's own. Whoever changes from one stream to another puts them in order.
  void follow(cudaStream_t stream) {
    stream_ = stream;
    follows_ = true;
  }

  // By a session: what `own` is given from now on comes behind what the trainer's stream was given. Throws Error (device).
  void precede(cudaStream_t own) {
    if (follows_ && stream_ != own) order(stream_, given_, own);
  }
  // By a session: what the trainer's stream is given from now on comes behind what `own` was given. Throws Error (device).
  void succeed(cudaStream_t own) {
    if (follows_ && stream_ != own) order(own, done_, stream_);
  }
  // By a session: whether operations on rows go into the trainer's stream for now.
  void lend(bool lent) { lent_ = lent && follows_; }
  // By a session: whether the trainer works in another stream than `own`.
  bool is_elsewhere(cudaStream_t own) const { return follows_ && stream_ != own; }
  // The stream that operations of a queue, whose own is `own`, are to go into.
  cudaStream_t at_hand(cudaStream_t own) const { return lent_ ? stream_ : own; }

 private:
  // What `second` is given from now on waits for what `first` was given.
  static void order(cudaStream_t first, CudaEvent& reached, cudaStream_t second) {
    reached.record(first);
    device::check(cudaStreamWaitEvent(second, reached.get(), 0), "cudaStreamWaitEvent");
  }

  CudaEvent given_, done_;
  cudaStream_t stream_ = nullptr;
  bool follows_ = false, lent_ = false;
};

// Who waits for a device in a rank's name: a communicator that carries its memory, under its deadline. What a stream is given may
// wait for a peer that never comes, and the runtime would wait as long.
class DeviceWaiter {
 public:
  // Returns once the event is reached. Throws Error: timeout, after an abort, past the deadline; device.
  virtual void await(CudaEvent const& event) = 0;

 protected:
  ~DeviceWaiter() = default;
};

// Does not own. Where work of a device is put, and where its scratch comes from: a CudaPool, or a resource of the user's. Made
// while the stream's device is the current one. Handed to sessions and communicators of a device, which copy it; stream and
// resource outlive them.
struct CudaQueue {
  // The stream in whose order all work is put; null is the default stream.
  cudaStream_t stream = nullptr;
  // Where scratch of steps comes from; an empty one throws Error (misuse) at the first need. With a caller it gives and takes in
  // the order of two streams, as a CudaPool can.
  device::AnyResource memory = {};
  // The number of the stream's device, which make_current makes the thread's again.
  int device = device::current_device();
  // Who tells of the trainer's stream; null where the trainer works in this queue's.
  CallerStream* caller = nullptr;
  // Who waits in this rank's name; null where nobody does, and the runtime waits without a deadline. Set by communicators, in the
  // queue that they show.
  DeviceWaiter* waiter = nullptr;

  // The same queue, waited for by `who`, which must outlive it.
  CudaQueue awaited_by(DeviceWaiter& who) const {
    CudaQueue queue = *this;
    queue.waiter = &who;
    return queue;
  }
  // Blocks the thread until an event of the queue is reached. Throws what the waiter throws.
  void await(CudaEvent const& event) const {
    if (waiter) waiter->await(event);
    else event.synchronize();
  }
  // Blocks the thread until the stream has done all that it was given. Throws what the waiter throws, and Error (device).
  void wait() const {
    CudaEvent done;
    done.record(stream);
    await(done);
  }
  // The stream in which operations on rows are put now: that of the caller while a `start` copies gradients, else the queue's.
  cudaStream_t at_hand() const { return caller ? caller->at_hand(stream) : stream; }
};

// The queue's device becomes the calling thread's. Where that fails, so does what the thread puts in the queue.
// Called by a session whenever it is entered, on the thread that enters.
inline void make_current(CudaQueue const& queue) noexcept {
  if (cudaSetDevice(queue.device) != cudaSuccess) device::forget_last_error();
}

// What the queue is given from now on comes behind what its caller's stream was given. Called by a session as a call begins.
inline void begin_call(CudaQueue const& queue) {
  if (queue.caller && !device::is_captured(queue.stream)) queue.caller->precede(queue.stream);
}
// What the caller's stream is given from now on comes behind what the queue was given. Called by a session as a call ends.
inline void end_call(CudaQueue const& queue) {
  if (queue.caller && !device::is_captured(queue.stream)) queue.caller->succeed(queue.stream);
}
// Operations on rows go into the caller's stream, or no longer. Called by a session around the copies of a `start`.
inline void lend_caller(CudaQueue const& queue, bool lent) noexcept {
  if (queue.caller) queue.caller->lend(lent);
}

}  // namespace parallax
