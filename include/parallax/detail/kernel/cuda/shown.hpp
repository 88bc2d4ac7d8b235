// Elements in the host's memory for operations on a CUDA device: sent there in one copy, over pinned memory. For every
// compiler; kernel/cuda/row_ops.hpp includes it.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax::inline v0_2 {
namespace device {

// Bytes on their way to the device, over pinned memory; owns both. The pinned memory is written again once the device has read
// it. A Shown has one and fills it again in every step; it allocates only for more bytes than ever before.
class Upload {
 public:
  // Returns room for `bytes`. Waits, without deadline, till the device has read the last. Throws Error (device, out_of_memory).
  std::byte* room(std::size_t bytes) {
    if (reached_) reached_->synchronize();
    pinned_.resize_with_slack(bytes);
    device_.resize_with_slack(bytes);
    return pinned_.data();
  }
  // Sends the filled bytes, by one copy in the order of `stream`. Returns their place on the device, for work put in the stream
  // from now on. Throws Error (device; misuse if the stream is captured).
  std::byte const* start(cudaStream_t stream) {
    if (!reached_) reached_.emplace();
    if (!pinned_.empty())
      check(cudaMemcpyAsync(device_.data(), pinned_.data(), pinned_.size(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    reached_->record(stream);
    return device_.data();
  }
  // Returns the device's memory of the last `start`; the address changes only by `room`.
  std::byte const* there() const { return device_.data(); }

 private:
  Buffer<std::byte, PinnedSpace> pinned_;
  Buffer<std::byte, CudaSpace> device_;
  std::optional<CudaEvent> reached_;
};

}  // namespace device

// Elements of the host's memory on the device, in a copy owned by this object; the first `of` after a `renew` sends it.
template <class T>
class Shown<T, CudaSpace> {
 public:
  // Returns the elements in device memory, for work put in the stream of `ops` from now on; valid until the next `of` after a
  // `renew`. Sends them, if stale, as an Upload: with its wait, and Error (device, out_of_memory; misuse in a captured step).
  template <class Ops>
  std::span<T const> of(Ops const& ops, std::span<T const> host) {
    if (stale_) {
      write(ops, host.size(), [&](T* to) {
        if (!host.empty()) std::memcpy(to, host.data(), host.size_bytes());
      });
      stale_ = false;
    }
    return {reinterpret_cast<T const*>(upload_.there()), host.size()};
  }
  // Sends n elements written by `fill`, called with their place; they are valid until the next call. Waits and throws as `of`.
  template <class Ops, class Fill>
  std::span<T const> write(Ops const& ops, std::size_t n, Fill&& fill) {
    fill(reinterpret_cast<T*>(upload_.room(n * sizeof(T))));
    return {reinterpret_cast<T const*>(upload_.start(ops.stream())), n};
  }
  // Notes that the host has changed its elements: the next `of` sends them again.
  void renew() { stale_ = true; }

 private:
  device::Upload upload_;
  bool stale_ = true;
};

}  // namespace parallax
