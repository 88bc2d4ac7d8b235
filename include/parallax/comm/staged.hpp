// Device memory by way of the host's: a host communicator is made to carry CUDA's memory, too. Made by trainers with a
// communicator that knows nothing of devices.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/transfer/device_channels.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax::inline v0_2 {

// The host communicator, and exchanges of device memory by it: blocks are copied to pinned memory in the order of the stream,
// exchanged by the host once they are there, and copied to the device, in the order of the stream again. Every channel keeps
// pinned memory of its own; it grows to its largest operation, and is allocated only then. Refers to the host and the queue,
// which must outlive it; its maker and users have the queue's device as the current one. Move-only. Errors are the host's, and
// Error (device, out_of_memory).
//   Staged<MpiCommunicator> world{mpi, queue};
template <Communicator Host>
class Staged : public Forwarding<Host> {
 public:
  // Memory of the queue's device.
  using device_space = CudaSpace;

  // Local; allocates no pinned memory yet. Refers to both, which must outlive it.
  Staged(Host& host, CudaQueue queue) : Staged{host, std::make_unique<Channels>(host, queue)} {}

  // Returns this rank's stream and pool, as they were given, and waited for under the host's deadline.
  CudaQueue queue() const { return channels_->queue; }
  // Posts an exchange as defined by CarriesDevice. Every byte for another rank is copied to pinned memory, exchanged by the
  // host, and copied back; `test` moves it on. Throws Error: invalid_argument, misuse, mismatch, device, out_of_memory, and the
  // host's own.
  DeviceRequest ialltoallv_device(int channel, Transfer const& transfer) {
    channels_->post(channel, transfer);
    return {channels_.get(), channel};
  }

 private:
  class Channels;

  // Takes over the channels, made before the base, which refers to them.
  Staged(Host& host, std::unique_ptr<Channels> made) : Forwarding<Host>{host, made.get()}, channels_{std::move(made)} {}

  std::unique_ptr<Channels> channels_;
};

// The operations of a rank on device memory, one per channel, and their pinned memory. Made and owned by Staged.
template <Communicator Host>
class Staged<Host>::Channels final : public detail::DeviceChannels, public DeviceWaiter {
 public:
  // Local. Refers to the host communicator and the queue.
  Channels(Host& host, CudaQueue given) : queue{given.awaited_by(*this)}, host_{&host} {}
  Channels(Channels&&) = delete;
  ~Channels() {
    for (std::optional<ChannelState> const& state : states_) {  // the device may still be using the pinned memory
      if (state && state->leaving) state->left.synchronize();
      if (state && state->landing) state->landed.synchronize();
    }
  }

  // Puts the copies to pinned memory in the stream; the host's exchange is posted by `advance`, once they are done.
  void post(int channel, Transfer const& transfer) {
    check(*host_, channel, transfer);
    std::optional<ChannelState>& made = states_[static_cast<std::size_t>(channel)];
    if (!made) made.emplace(static_cast<std::size_t>(host_->size()));
    ChannelState& state = *made;
    if (state.leaving) state.left.synchronize();  // of a withdrawn one
    state.transfer = transfer;
    state.outgoing.resize_with_slack(pack(transfer.to, state.to));
    state.incoming_bytes = pack(transfer.from, state.from);
    auto const self = static_cast<std::size_t>(host_->rank());
    device::copy(transfer.receive + transfer.from[self].offset, transfer.send + transfer.to[self].offset,
                 transfer.to[self].bytes, cudaMemcpyDeviceToDevice, queue.stream);
    for (std::size_t rank = 0; rank < state.to.size(); ++rank)
      device::copy(state.outgoing.data() + state.to[rank].offset, transfer.send + transfer.to[rank].offset,
                   state.to[rank].bytes, cudaMemcpyDeviceToHost, queue.stream);
    if (state.outgoing.size() > 0) {
      state.left.record(queue.stream);
      state.leaving = true;
    }
    set_out(channel);
  }

  // Waits for the event under the host's deadline, as DeviceWaiter has it.
  void await(CudaEvent const& event) override { detail::await_event(*host_, event); }

  // This rank's stream and pool.
  CudaQueue const queue;

 private:
  // The blocks lie packed in pinned memory.
  // `outgoing` may be written again once `left` is reached, `incoming` once `landed` is.
  struct ChannelState {
    explicit ChannelState(std::size_t ranks) : to(ranks), from(ranks) {}

    Transfer transfer;
    std::vector<ByteRange> to, from;
    Buffer<std::byte, PinnedSpace> outgoing, incoming;
    std::size_t incoming_bytes = 0;
    std::optional<request_of<Host>> request;
    CudaEvent left, landed;  // behind the copies from the device, and behind those to it
    bool leaving = false, landing = false;
  };

  // Lays out the blocks of other ranks in pinned memory, at multiples of 16 bytes; returns the bytes of all, with the gaps.
  std::size_t pack(Slice<ByteRange const> blocks, std::vector<ByteRange>& packed) const {
    std::size_t end = 0;
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      packed[rank] = {end, static_cast<int>(rank) == host_->rank() ? 0 : blocks[rank].bytes};
      end += (packed[rank].bytes + 15) / 16 * 16;
    }
    return end;
  }

  // Posts the host's exchange once the stream has come past both events; puts the copies to the device in the stream once all
  // is here, and returns true then.
  bool advance(int channel) override {
    ChannelState& state = *states_[static_cast<std::size_t>(channel)];
    if (!state.request) {
      if (!passed(state.leaving, state.left) || !passed(state.landing, state.landed)) return false;
      state.incoming.resize_with_slack(state.incoming_bytes);
      state.request.emplace(host_->ialltoallv(channel, {state.outgoing.data(), state.to, state.incoming.data(), state.from}));
    }
    if (!state.request->test()) return false;
    for (std::size_t rank = 0; rank < state.from.size(); ++rank)
      device::copy(state.transfer.receive + state.transfer.from[rank].offset, state.incoming.data() + state.from[rank].offset,
                   state.from[rank].bytes, cudaMemcpyHostToDevice, queue.stream);
    if (state.incoming_bytes > 0) {
      state.landed.record(queue.stream);
      state.landing = true;
    }
    state.request.reset();
    return true;
  }
  // Returns true if the stream has passed an event, perhaps pending. Looks, and does not wait.
  static bool passed(bool& pending, CudaEvent const& event) {
    if (pending && !event.reached()) return false;
    pending = false;
    return true;
  }
  // Returns the rank that the host's exchange waits for, or -1; -1 as long as the wait is for the device.
  int missing(int channel) const override {
    ChannelState const& state = *states_[static_cast<std::size_t>(channel)];
    return state.request ? state.request->waiting_for() : -1;
  }
  // Withdraws the host's request. Copies in the stream go on; the channel waits for them before it uses its memory again.
  void give_up(int channel) noexcept override { states_[static_cast<std::size_t>(channel)]->request.reset(); }

  Host* host_;
  std::array<std::optional<ChannelState>, channels> states_;  // of the channels used
};

}  // namespace parallax
