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

// Blocks by channel and rank. Does not own the memory of transfers. A block before its operation is kept here, and copied at
// the posting.
class SocketBlocks {
 public:
  // Called once, before anything else.
  void join(int rank, int size) {
    rank_ = rank;
    near_.resize(static_cast<std::size_t>(size));
    early_.resize(static_cast<std::size_t>(size));
    for (ChannelState& state : states_)
      state.missing.resize(static_cast<std::size_t>(size)), state.unsent.resize(static_cast<std::size_t>(size));
  }

  // Leaves a rank out: blocks to and from it go another way.
  void leave_out(int rank) { near_[static_cast<std::size_t>(rank)] = 1; }

  // Returns true if an operation is in flight on the channel.
  bool busy(int channel) const { return state(channel).busy; }
  // Returns true if an operation needs nobody any more.
  bool complete(int channel) const { return state(channel).left == 0; }
  // Begins the channel's next operation. Returns its number.
  std::uint64_t open(int channel, Transfer const& transfer);
  // Takes an early block of that rank for the operation just opened. Error (mismatch).
  void claim(int channel, int source, Connection& connection);
  // Ends the operation, in any way.
  void close(int channel) { state(channel).busy = false; }

  // Begins a block from that rank. Returns its place. Error (mismatch).
  std::byte* begin(int source, FrameHeader const& block);
  // Makes room for more of a block, like FrameSink.
  std::byte* more(int source, FrameHeader const& block, std::size_t bytes, std::byte* to) {
    Fifo<Early>& blocks = early(source, block.channel);
    return !blocks.empty() && blocks.back().number == block.number ? grow(blocks.back().bytes, bytes, block.total) : to;
  }
  // Ends a block: all of it is there.
  void come(int source, FrameHeader const& block);
  // Notes that all of this rank's block for that one is on its way.
  void gone(int target, int channel) { settle(state(channel), state(channel).unsent, target); }

  // Returns a rank that has not delivered, else one that has not been given its block, or -1.
  int waiting_for(int channel) const;
  // Returns true if the operation needs that rank.
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

  // Returns true if a block of this number is of the operation at hand. Error (mismatch) if it can be of none: of a past
  // operation, or of a later one while that rank's block for this one is missing.
  bool belongs(ChannelState const& state, int source, std::uint64_t number, std::uint64_t bytes) const;
  // Returns an error about a rank's block, unlike the expected one.
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
