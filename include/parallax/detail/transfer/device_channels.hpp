// The operations on device memory that a rank has in flight, one per channel: the base of communicators that carry it. The
// channels of Staged, NcclCommunicator and CudaThreadCommunicator derive from it.
#pragma once

#include <array>
#include <cstddef>

#include "parallax/comm/forwarding.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// Derived classes take an operation from stage to stage. Whenever one is polled all others move on, too: a peer may be waiting
// for one of them.
class DeviceChannels : public Beside {
 public:
  // Returns true if an operation of this channel was posted and neither seen to be complete nor withdrawn.
  bool carries(int channel) const final { return state(channel) != State::idle; }

  // Moves on every operation under way, and throws the error of one that fails.
  void move_on() final {
    for (int channel = 0; channel < channels && in_flight_ > 0; ++channel) move_on(channel);
  }

  // Makes progress; returns true once the channel's operation is complete, and frees the channel; true of an idle channel.
  bool progress(int channel) {
    move_on(channel);
    if (state(channel) == State::under_way) move_on();
    if (state(channel) == State::under_way) return false;
    leave(channel);
    return true;
  }
  // Returns a rank that has not delivered, or -1.
  int waiting_for(int channel) const { return state(channel) == State::under_way ? missing(channel) : -1; }
  // Withdraws, for a destroyed request: returns once no peer touches the memory of its operation, and frees the channel.
  void withdraw(int channel) noexcept {
    if (state(channel) == State::under_way) give_up(channel);
    leave(channel);
  }

 protected:
  ~DeviceChannels() = default;

  // Of an operation under way:
  virtual bool advance(int channel) = 0;           // goes as far as it can; returns true if it is complete
  virtual int missing(int channel) const = 0;      // the rank that it waits for, or -1
  virtual void give_up(int channel) noexcept = 0;  // returns once no peer touches its memory any more

  // Throws at the begin of an exchange Error: invalid_argument for list or channel, mismatch for its own block, misuse if busy.
  template <Communicator Host>
  void check(Host const& host, int channel, Transfer const& transfer) const {
    auto const self = static_cast<std::size_t>(host.rank());
    check_lists(host.rank(), host.size(), "ialltoallv_device", transfer);
    if (transfer.to[self].bytes != transfer.from[self].bytes)
      throw Error{Errc::mismatch, host.rank(), "ialltoallv_device", "",
                  joined({"rank ", host.rank(), " sends ", transfer.to[self].bytes, " bytes to itself but expects ",
                          transfer.from[self].bytes})};
    check_idle(host, channel, "ialltoallv_device");
  }
  // Throws Error (misuse) if the channel has an operation of this kind, and invalid_argument if there is no such channel.
  template <Communicator Host>
  void check_idle(Host const& host, int channel, char const* operation) const {
    check_channel(host.rank(), operation, channel);
    if (carries(channel)) throw busy_channel(host.rank(), operation, channel);
  }
  // Sets out a posted operation: from now on it is moved on whenever anything is.
  void set_out(int channel) {
    state(channel) = State::under_way;
    ++in_flight_;
  }

 private:
  // State of a channel: without an operation, with one, or with one that is complete and was not yet seen to be.
  enum class State : unsigned char { idle, under_way, complete };

  // Returns the state of a channel, a number from 0 to `channels` - 1.
  State& state(int channel) { return states_[static_cast<std::size_t>(channel)]; }
  State state(int channel) const { return states_[static_cast<std::size_t>(channel)]; }
  // Takes one operation as far as it can go.
  void move_on(int channel) {
    if (state(channel) == State::under_way && advance(channel)) state(channel) = State::complete;
  }
  // Leaves the channel without an operation.
  void leave(int channel) {
    in_flight_ -= state(channel) != State::idle;
    state(channel) = State::idle;
  }

  std::array<State, channels> states_{};
  // Channels that are not idle.
  int in_flight_ = 0;
};

// Waits for an event of a device under the deadline of the communicator that carries its memory. Past it this communicator is
// aborted, and Error (timeout) thrown. For channels with nothing else to look after.
template <Communicator Host, class Event>
void await_event(Host& host, Event const& event) {
  Patience<Host> patience{host};
  while (!event.reached()) {
    if (patience.pause()) continue;
    Error const error = timeout_error(host, -1, "wait for the device", "");
    host.abort(error);
    throw error;
  }
}

}  // namespace detail

// A move-only token on an operation in flight; does not outlive the communicator. `test` returns true once the order with the
// rank's queue is certain: the device need not have done it yet. `waiting_for` returns -1 if it waits for the device.
using DeviceRequest = detail::InFlight<detail::DeviceChannels>;

}  // namespace parallax
