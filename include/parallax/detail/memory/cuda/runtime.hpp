// Calls of the CUDA runtime, with errors for failures; streams and events. Both other headers of the device's memory are made
// of it, and programs take streams from it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {
namespace device {

// Forgets the thread's last error. A failed call leaves its status behind as the last error, taken by CUB, Thrust and a user's
// check of a launch for one of theirs. Called with such a status in hand, and a remedy for it.
inline void forget_last_error() noexcept { static_cast<void>(cudaGetLastError()); }
// Ignores, and forgets, the status of a call whose failure nobody could be told, such as a giving back.
inline void ignore(cudaError_t status) noexcept {
  if (status != cudaSuccess) forget_last_error();
}

// Returns the name and text of an error of the runtime's; if the driver is too old, also the unfitting versions of CUDA.
PARALLAX_COLD inline std::string error_text(cudaError_t status) {
  std::string text = std::string{cudaGetErrorName(status)} + ": " + cudaGetErrorString(status);
  int driver = 0, runtime = 0;
  if (status != cudaErrorInsufficientDriver || cudaDriverGetVersion(&driver) != cudaSuccess ||
      cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    return text;
  auto const version = [](int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); };
  return text + " (the driver is for CUDA " + version(driver) + ", the program for " + version(runtime) + ")";
}

// Checks the status of a call of the runtime's whose failure matters. Throws Error (out_of_memory for a lack of memory, else
// device) with `call`, unless it succeeded; the thread's last error is forgotten first.
inline void check(cudaError_t status, char const* call) {
  if (status == cudaSuccess) return;
  forget_last_error();
  throw Error{status == cudaErrorMemoryAllocation ? Errc::out_of_memory : Errc::device, -1, call, "", error_text(status)};
}

// Local. Copies `bytes` in the order of the stream, in the direction of `kind`. Does nothing without bytes, or if `to` is
// `from`. Both ranges stay until the stream has come so far. Throws Error (device).
inline void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes > 0 && to != from) check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync");
}

class Capture;

namespace detail {
// The calling thread's capture, see Capture: null if there is none.
struct Capturing {
  cudaStream_t stream = nullptr;
  Capture* capture = nullptr;
};
inline thread_local constinit Capturing capturing;
}  // namespace detail

// Returns true if the calling thread's work in this stream is captured, and not run: a wait for it, or a look at its
// completion, comes to no end. For callers that can do without.
inline bool is_captured(cudaStream_t stream) noexcept {
  return detail::capturing.capture != nullptr && detail::capturing.stream == stream;
}
// Throws Error (misuse) if the stream is captured. Called before a wait for the stream, or a note of its place.
PARALLAX_COLD inline void refuse_captured(cudaStream_t stream) {
  if (is_captured(stream))
    throw Error{Errc::misuse, -1, "capture", "",
                "captured work cannot wait for the device, or bring it the host's data: take a step of this kind before: it "
                "brings what is needed once"};
}

// Alignment of the runtime's blocks, in bytes; buffers ask resources for it.
inline constexpr std::size_t device_alignment = 256;  // of all blocks of the runtime

// Returns the number of the calling thread's device; 0 if there is none.
inline int current_device() noexcept {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) forget_last_error();
  return device;
}
// Returns the number of the device on which a block was made, of its memory or of the host's; the current one if the runtime
// does not know. Called as blocks are given back, perhaps by another device's thread.
inline int device_of(void const* block) noexcept {
  cudaPointerAttributes known{};
  if (cudaPointerGetAttributes(&known, block) == cudaSuccess && known.device >= 0) return known.device;
  forget_last_error();
  return current_device();
}

// A guard: during its lifetime a device is the calling thread's current one; then the one before is again.
class OnDevice {
 public:
  // Makes `device` the current one. After a failure here, the calls that follow fail.
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

// An owner of an object of the runtime's, which `destroy` gives back.
template <class Object, auto destroy>
struct OwnedObject {
  // The object; null if there is none.
  Object object = nullptr;

  OwnedObject() = default;
  // Takes over the object of `other`, which has none from then on.
  OwnedObject(OwnedObject&& other) noexcept : object{std::exchange(other.object, nullptr)} {}
  // Exchanges the objects; this one's goes with `other`.
  OwnedObject& operator=(OwnedObject&& other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~OwnedObject() {
    if (object) ignore(destroy(object));
  }
};

}  // namespace device

// Owns a stream of the current device that never waits for the default one. Movable. No wait at its end. Throws Error (device).
class CudaStream {
 public:
  CudaStream() { device::check(cudaStreamCreateWithFlags(&own_.object, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }

  // Returns the stream, valid as long as this object; null after a move from it: the default stream.
  cudaStream_t get() const noexcept { return own_.object; }

 private:
  device::OwnedObject<cudaStream_t, cudaStreamDestroy> own_;
};

// An owner of an event of the current device that tells no time. Movable. May go while a stream has yet to reach it or waits
// for it. Making one throws Error (device).
class CudaEvent {
 public:
  CudaEvent() { device::check(cudaEventCreateWithFlags(&own_.object, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }

  // Marks the present place in the stream's work; later calls speak of this one alone. Throws Error (device; misuse if the
  // stream is captured).
  void record(cudaStream_t stream) {
    device::refuse_captured(stream);
    device::check(cudaEventRecord(get(), stream), "cudaEventRecord");
  }
  // Returns true if all work of the stream before the last `record` is done, without waiting; true if there was none. Throws
  // Error (device) if work before it has failed.
  bool reached() const {
    cudaError_t const status = cudaEventQuery(get());
    if (status != cudaErrorNotReady) device::check(status, "cudaEventQuery");
    else device::forget_last_error();
    return status == cudaSuccess;
  }
  // Blocks the thread until the event is reached, without a deadline; a failure shows in later calls.
  void synchronize() const noexcept { device::ignore(cudaEventSynchronize(get())); }
  // Returns the event, for a stream of the caller's to wait for; valid as long as this object.
  cudaEvent_t get() const noexcept { return own_.object; }

 private:
  device::OwnedObject<cudaEvent_t, cudaEventDestroy> own_;
};

}  // namespace parallax
