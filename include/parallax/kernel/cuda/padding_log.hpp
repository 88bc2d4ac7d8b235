// The tally of a padded table on a CUDA device, and the host's copy of it. kernel/cuda/row_ops.hpp includes it.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "parallax/kernel/cuda/row_ops.hpp"
#include "parallax/kernel/padding_log.hpp"

namespace parallax {

// Kernels add to the tally, and now and then a copy of it comes to the host, never two at once. Its numbers only grow, so that no
// copy is missed. Everything may throw Error (device, out_of_memory).
template <>
class PaddingLog<CudaSpace> {
  using Ops = RowOps<CudaSpace>;

 public:
  // How batches are padded.
  using Padding = device::Padding;

  // Where kernels add to it, in device memory: all zeros before the first of them.
  device::PaddingTally* there(Ops const& ops) {
    if (there_.empty()) {
      there_.resize_with_slack(sizeof(device::PaddingTally));
      ops.clear(there_.data(), there_.size());
    }
    behind_ = true;
    return reinterpret_cast<device::PaddingTally*>(there_.data());
  }
  // Puts a copy in the queue, unless one is on its way.
  void bring(Ops const& ops) {
    if (coming_ || there_.empty()) return;
    here_.resize_with_slack(sizeof(device::PaddingTally));
    if (!come_) come_.emplace();
    device::copy(here_.data(), there_.data(), here_.size(), cudaMemcpyDeviceToHost, ops.stream());
    come_->record(ops.stream());
    coming_ = true, behind_ = false;
  }
  // What has come since the last call, `longest` excepted; where it is waited for, of all that was put in the queue.
  device::PaddingTally news(Ops const& ops, bool wait) {
    if (coming_ && (wait || come_->reached())) take(ops);
    if (wait && behind_) bring(ops), take(ops);
    device::PaddingTally const before = std::exchange(told_, known_);
    return {known_.dropped - before.dropped, known_.refused - before.refused, known_.wrong - before.wrong,
            known_.overflows - before.overflows, known_.longest};
  }

 private:
  void take(Ops const& ops) {
    if (!coming_) return;
    ops.await(*come_);
    std::memcpy(&known_, here_.data(), sizeof known_);
    coming_ = false;
  }

  Buffer<std::byte, CudaSpace> there_;
  Buffer<std::byte, PinnedSpace> here_;
  std::optional<CudaEvent> come_;
  bool coming_ = false, behind_ = false;  // a copy is on its way; kernels have added since the last one was put in the queue
  device::PaddingTally known_, told_;     // as of the last copy, and of the last call of `news`
};

}  // namespace parallax
