// N ranks as threads of one process on a shared CUDA device, each with a stream of its own: blocks are copied on the device.
// Trainers call `run_cuda_threads`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/thread.hpp"
#include "parallax/detail/transfer/device_channels.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax::inline v0_2 {

// A rank's end of a group of threads, and exchanges of memory of the one device current for all of them. A rank tells the
// others the places of its blocks and an event behind their making; the receiver copies, in the order of its stream, and the
// sender's stream waits for the copy before it goes on. No host thread waits for the device. Refers to the host communicator
// and the queue, which must outlive it. Move-only. Sizes that disagree are an Error (mismatch) of the receiver, naming the
// sender.
class CudaThreadCommunicator : public Forwarding<ThreadCommunicator> {
 public:
  // Memory of the device current for all ranks.
  using device_space = CudaSpace;

  // Local. Refers to the rank's end of the group, stream and pool, which must outlive it. The queue's device is current.
  CudaThreadCommunicator(ThreadCommunicator& host, CudaQueue queue)
      : CudaThreadCommunicator{host, std::make_unique<Channels>(host, queue)} {}

  // Returns this rank's stream and pool, as they were given, and waited for under the group's deadline.
  CudaQueue queue() const { return channels_->queue; }
  // Posts an exchange as defined by CarriesDevice. Takes two exchanges of the host: the places of blocks, then a byte for each
  // block copied. Throws Error: invalid_argument, misuse, mismatch, device, or the reason of an abort.
  DeviceRequest ialltoallv_device(int channel, Transfer const& transfer) {
    channels_->post(channel, transfer);
    return {channels_.get(), channel};
  }

 private:
  // The operations of a rank on device memory, one per channel.
  class Channels final : public detail::DeviceChannels, public DeviceWaiter {
   public:
    Channels(ThreadCommunicator& host, CudaQueue given) : queue{given.awaited_by(*this)}, host_{&host} {}
    Channels(Channels&&) = delete;
    // Gives up the operations in flight: their events must not go while a peer may use them.
    ~Channels() {
      for (int channel = 0; channel < channels; ++channel)
        if (carries(channel)) withdraw(channel);
    }

    // Posts an exchange: offers go out by the host, and the rank's own block is copied in the stream. Throws as `check`.
    void post(int channel, Transfer const& transfer) {
      check(*host_, channel, transfer);
      std::optional<ChannelState>& made = states_[static_cast<std::size_t>(channel)];
      if (!made) made.emplace(static_cast<std::size_t>(host_->size()));
      ChannelState& state = *made;
      state.transfer = transfer;
      state.ready.record(queue.stream);
      std::uint64_t const loan = host_->lend(loan_of(channel));
      for (std::size_t rank = 0; rank < state.told.size(); ++rank) {
        state.told[rank] = {transfer.send + transfer.to[rank].offset, transfer.to[rank].bytes, state.ready.get(),
                            state.copied[rank].get(), loan};
        state.to[rank] = state.from[rank] = {rank * sizeof(Offer), is_self(rank) ? 0 : sizeof(Offer)};
      }
      state.answering = false;
      state.request.emplace(host_->ialltoallv(channel, {reinterpret_cast<std::byte const*>(state.told.data()), state.to,
                                                        reinterpret_cast<std::byte*>(state.heard.data()), state.from}));
      set_out(channel);
      auto const self = static_cast<std::size_t>(host_->rank());
      device::copy(transfer.receive + transfer.from[self].offset, transfer.send + transfer.to[self].offset,
                   transfer.to[self].bytes, cudaMemcpyDeviceToDevice, queue.stream);
    }

    // Waits for the event under the group's deadline, as DeviceWaiter has it.
    void await(CudaEvent const& event) override { detail::await_event(*host_, event); }

    CudaQueue const queue;

   private:
    // A rank's message to another: the place of its block, and two events, both its own. `ready` it has recorded behind the
    // making of the block; `copied` the receiver records behind its copy. They are there as long as the loan is open.
    struct Offer {
      std::byte const* data;
      std::size_t bytes;
      cudaEvent_t ready, copied;
      std::uint64_t loan;
    };

    // Of a channel. First offers are exchanged; then, for each block copied, a byte. `told` and `heard` are by rank; the first
    // token goes out, and those behind it come in.
    struct ChannelState {
      explicit ChannelState(std::size_t ranks)
          : to(ranks), from(ranks), told(ranks), heard(ranks), tokens(ranks + 1), copied(ranks) {}

      Transfer transfer;
      std::vector<ByteRange> to, from;
      std::vector<Offer> told, heard;
      std::vector<std::byte> tokens;
      bool answering = false;
      std::optional<ThreadCommunicator::Request> request;
      CudaEvent ready;
      std::vector<CudaEvent> copied;  // by receiver
    };

    bool is_self(std::size_t rank) const { return static_cast<int>(rank) == host_->rank(); }
    // Keeps loans of blocks on the device apart from loans of host memory on the same channel.
    static int loan_of(int channel) { return channels + channel; }

    // Exchanges offers, copies, answers, and lets the stream wait for ranks that copy from here. Returns true once it does.
    bool advance(int channel) override {
      ChannelState& state = *states_[static_cast<std::size_t>(channel)];
      if (!state.request->test()) return false;
      if (!state.answering) {
        compare(state);
        copy_blocks(channel, state);
        answer(channel, state);
        if (!state.request->test()) return false;
      }
      for (std::size_t rank = 0; rank < state.to.size(); ++rank)
        if (!is_self(rank) && state.transfer.to[rank].bytes > 0)
          device::check(cudaStreamWaitEvent(queue.stream, state.copied[rank].get(), 0), "cudaStreamWaitEvent");
      state.request.reset();
      return true;
    }

    // Throws Error (mismatch) if a sender offers another size than this rank expects.
    void compare(ChannelState const& state) const {
      for (std::size_t rank = 0; rank < state.heard.size(); ++rank)
        if (!is_self(rank) && state.heard[rank].bytes != state.transfer.from[rank].bytes)
          throw Error{Errc::mismatch, static_cast<int>(rank), "ialltoallv_device", "",
                      "rank " + std::to_string(rank) + " sent " + std::to_string(state.heard[rank].bytes) + " bytes where " +
                          std::to_string(state.transfer.from[rank].bytes) + " were expected by rank " +
                          std::to_string(host_->rank())};
    }

    // Puts copies of the blocks offered in the stream. A sender with a withdrawn block lends it no more. It will read no answer
    // either, so this operation waits for it until the group is aborted.
    void copy_blocks(int channel, ChannelState& state) {
      for (int k = 1; k < host_->size(); ++k) {
        int const rank = (host_->rank() + k) % host_->size();
        Offer const& offer = state.heard[static_cast<std::size_t>(rank)];
        if (offer.bytes == 0 || !host_->hold(loan_of(channel), rank, offer.loan)) continue;
        struct Release {
          ThreadCommunicator* host;
          int channel, rank;
          ~Release() { host->release(channel, rank); }
        } const release{host_, loan_of(channel), rank};
        device::check(cudaStreamWaitEvent(queue.stream, offer.ready, 0), "cudaStreamWaitEvent");
        device::copy(state.transfer.receive + state.transfer.from[static_cast<std::size_t>(rank)].offset, offer.data,
                     offer.bytes, cudaMemcpyDeviceToDevice, queue.stream);
        device::check(cudaEventRecord(offer.copied, queue.stream), "cudaEventRecord");
      }
    }

    // Tells every sender that its block is copied, as far as the stream goes, and expects a like word on this rank's blocks.
    void answer(int channel, ChannelState& state) {
      for (std::size_t rank = 0; rank < state.to.size(); ++rank) {
        state.to[rank] = {0, !is_self(rank) && state.transfer.from[rank].bytes > 0 ? std::size_t{1} : 0};
        state.from[rank] = {1 + rank, !is_self(rank) && state.transfer.to[rank].bytes > 0 ? std::size_t{1} : 0};
      }
      state.request.emplace(host_->ialltoallv(channel, {state.tokens.data(), state.to, state.tokens.data(), state.from}));
      state.answering = true;
    }

    // Returns the rank that the host's exchange at hand waits for, or -1.
    int missing(int channel) const override {
      std::optional<ChannelState> const& state = states_[static_cast<std::size_t>(channel)];
      return state->request ? state->request->waiting_for() : -1;
    }
    // Gives up, after an abort: closes the loan, and waits on the host for copies begun by peers.
    void give_up(int channel) noexcept override {
      ChannelState& state = *states_[static_cast<std::size_t>(channel)];
      state.request.reset();
      host_->reclaim(loan_of(channel));
      for (std::size_t rank = 0; rank < state.copied.size(); ++rank)  // all copies have been recorded by now
        if (!is_self(rank) && state.transfer.to[rank].bytes > 0) state.copied[rank].synchronize();
    }

    ThreadCommunicator* host_;
    std::array<std::optional<ChannelState>, channels> states_;  // of the channels used
  };

  // Takes over the channels, made before the base, which refers to them.
  CudaThreadCommunicator(ThreadCommunicator& host, std::unique_ptr<Channels> made)
      : Forwarding{host, made.get()}, channels_{std::move(made)} {}

  std::unique_ptr<Channels> channels_;
};

static_assert(CarriesDevice<CudaThreadCommunicator> && KeepsJournals<CudaThreadCommunicator> &&
              LendsMemory<CudaThreadCommunicator> && KnowsOversubscription<CudaThreadCommunicator>);

// Runs `body(CudaThreadCommunicator&)` on `size` threads, as run_threads does, on the device current here. Every rank owns a
// stream, which does not wait for the default one, and a pool. A body working in another stream says so:
// world.queue().caller->follow(stream). Throws as run_threads, and Error (device).
template <class Body>
void run_cuda_threads(int size, Body&& body, ThreadOptions options = {}) {
  int device = 0;
  device::check(cudaGetDevice(&device), "cudaGetDevice");
  run_threads(
      size,
      [&](ThreadCommunicator& host) {
        device::check(cudaSetDevice(device), "cudaSetDevice");
        CudaPool pool;
        CudaStream const stream;
        CallerStream caller;
        CudaThreadCommunicator comm{host, {.stream = stream.get(), .memory = pool, .caller = &caller}};
        body(comm);
      },
      options);
}

}  // namespace parallax
