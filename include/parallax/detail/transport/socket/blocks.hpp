// The blocks of operations between ranks over sockets: the missing ones, the places of coming ones, and the early ones. An
// endpoint (detail/transport/socket/endpoint.hpp) owns one, and hands it all blocks from its connections.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/transport/socket/connection.hpp"

namespace parallax::inline v0_2::detail {

// Blocks by channel and rank. Does not own the memory of transfers: it must stay until `close`. A block before its operation is
// kept here, and copied at the posting. All functions are local, and none waits.
class SocketBlocks {
 public:
  // Makes room for all ranks; `rank` is this one. Called once, before anything else.
  void join(int rank, int size) {
    rank_ = rank;
    near_.resize(static_cast<std::size_t>(size));
    early_.resize(static_cast<std::size_t>(size));
    for (ChannelState& state : states_)
      state.missing.resize(static_cast<std::size_t>(size)), state.unsent.resize(static_cast<std::size_t>(size));
  }

  // Leaves a rank out from now on: blocks to and from it go through memory.
  void leave_out(int rank) { near_[static_cast<std::size_t>(rank)] = 1; }

  // Returns true if an operation is in flight on the channel.
  bool busy(int channel) const { return state(channel).busy; }
  // Returns true if the channel's operation needs no rank any more: all blocks have come, and this rank's have gone.
  bool complete(int channel) const { return state(channel).left == 0; }
  // Begins the channel's next operation; none may be in flight there. Returns its number, from 1.
  std::uint64_t open(int channel, Transfer const& transfer);
  // Takes an early block of rank `source`, if any, into the operation just opened. Throws Error (mismatch) if unexpected.
  void claim(int channel, int source, Connection& connection);
  // Ends the channel's operation, complete or not.
  void close(int channel) { state(channel).busy = false; }

  // Begins a block from rank `source`. Returns its place, in the transfer or here. Throws Error (mismatch) if it is unexpected.
  std::byte* begin(int source, FrameHeader const& block);
  // Makes room for the first `bytes` of a block. Returns its place: a new one for an early block, else `to`, the old one.
  std::byte* more(int source, FrameHeader const& block, std::size_t bytes, std::byte* to) {
    Fifo<Early>& blocks = early(source, block.channel);
    return !blocks.empty() && blocks.back().number == block.number ? grow(blocks.back().bytes, bytes, block.total) : to;
  }
  // Notes that all of a block from rank `source` is there.
  void come(int source, FrameHeader const& block);
  // Notes that the system has taken all of this rank's block for rank `target`.
  void gone(int target, int channel) { settle(state(channel), state(channel).unsent, target); }

  // Returns a rank that has not delivered on the channel, else one not yet given its block, or -1.
  int waiting_for(int channel) const;
  // Returns true if the channel's operation in flight needs that rank: its block has not come, or this rank's has not gone.
  bool needs(int channel, int rank) const {
    ChannelState const& it = state(channel);
    return it.busy && (it.missing[static_cast<std::size_t>(rank)] || it.unsent[static_cast<std::size_t>(rank)]);
  }

 private:
  // The operation in flight on a channel; operations are counted from 1.
  struct ChannelState {
    Transfer transfer;
    std::uint64_t number = 0;
    bool busy = false;
    int left = 0;                       // how many of these are set:
    std::vector<char> missing, unsent;  // by rank: its block has not come, or this rank's has not gone
  };
  // A block before its operation was posted, whole or in arrival.
  struct Early {
    std::uint64_t number = 0, total = 0;
    std::vector<std::byte> bytes;
    bool whole = false;
  };

  ChannelState& state(int channel) { return states_[static_cast<std::size_t>(channel)]; }
  ChannelState const& state(int channel) const { return states_[static_cast<std::size_t>(channel)]; }
  Fifo<Early>& early(int source, int channel) {
    return early_[static_cast<std::size_t>(source)][static_cast<std::size_t>(channel)];
  }
  static void settle(ChannelState& state, std::vector<char>& of, int rank) {
    state.left -= state.busy && std::exchange(of[static_cast<std::size_t>(rank)], 0);
  }

  // Returns true if a block of this number is of the operation in flight, false if of a later one. Throws Error (mismatch) for
  // another size than expected, a past operation, or a later one while rank `source`'s block for this one is missing.
  bool belongs(ChannelState const& state, int source, std::uint64_t number, std::uint64_t bytes) const;
  // Returns Error (mismatch) about a block unlike the expected one. `what`: the words for the sender's deed.
  Error disagreement(int source, std::string const& what) const {
    return {Errc::mismatch, source, "ialltoallv", "", joined({"rank ", source, " ", what, " rank ", rank_})};
  }

  static constexpr std::size_t most_spared = std::size_t{1} << 20;  // bytes of memory kept for the next early block

  int rank_ = 0;
  std::vector<char> near_;  // by rank
  std::array<ChannelState, channels> states_;
  std::vector<std::array<Fifo<Early>, channels>> early_;  // by source: in the order of their operations
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/blocks-inl.hpp"
#endif
