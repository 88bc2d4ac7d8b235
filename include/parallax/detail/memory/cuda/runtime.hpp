// Calls of the CUDA runtime, with errors where they fail; streams and events. Both other headers of the device's memory are made of
// it, and programs take streams from it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {
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

// Local. Copies `bytes` in the order of the stream, in the direction that `kind` names. Nothing where there is nothing to
// copy, or it is there. Both ranges stay until the stream has come so far. Throws Error (device).
inline void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes > 0 && to != from) check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
}

class Capture;

namespace detail {
// What the calling thread captures, see Capture: null where it captures nothing.
struct Capturing {
  cudaStream_t stream = nullptr;
  Capture* capture = nullptr;
};
inline thread_local constinit Capturing capturing;
}  // namespace detail

// Whether what the calling thread puts in this stream is captured, and not run: nothing that waits for it, or looks whether it has
// been done, comes to an end. Asked by what can do without.
inline bool is_captured(cudaStream_t stream) noexcept {
  return detail::capturing.capture != nullptr && detail::capturing.stream == stream;
}
// Throws Error (misuse) where it is. Called by what is about to wait for the stream, or to note where it has come to.
PARALLAX_COLD inline void refuse_captured(cudaStream_t stream) {
  if (is_captured(stream))
    throw Error{
        Errc::misuse, -1, "capture", "",
        "what is captured cannot wait for the device, or bring it what the host has: take a step of this kind before, which "
        "brings what is needed once"};
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

  // Marks the place that the stream's work has come to; later calls speak of this one alone. Throws Error (device; misuse where the
  // stream is captured).
  void record(cudaStream_t stream) {
    device::refuse_captured(stream);
    device::check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
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

}  // namespace parallax
