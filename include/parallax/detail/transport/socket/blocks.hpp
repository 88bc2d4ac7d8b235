// The blocks of operations between ranks over sockets: which are missing, where they go when they come, and what came before
// its operation was posted. An endpoint (detail/transport/socket/endpoint.hpp) owns one, and tells it what its connections
// read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/transport/socket/connection.hpp"

namespace parallax::detail {

// Does not own the memory of transfers. What comes too early is kept here, and copied when its operation is posted.
class SocketBlocks {
 public:
  // Called once, before anything else.
  void join(int rank, int size) {
    rank_ = rank;
    near_.resize(static_cast<std::size_t>(size));
    early_.resize(static_cast<std::size_t>(size));
    for (Lane& lane : lanes_)
      lane.missing.resize(static_cast<std::size_t>(size)), lane.unsent.resize(static_cast<std::size_t>(size));
  }

  // Blocks to and from that rank go another way: they are not waited for here.
  void leave_out(int rank) { near_[static_cast<std::size_t>(rank)] = 1; }

  // Whether an operation is in flight on the channel.
  bool busy(int channel) const { return lane(channel).busy; }
  // Whether an operation needs nobody any more.
  bool complete(int channel) const { return lane(channel).left == 0; }
  // Begins the channel's next operation. Returns its number.
  std::uint64_t open(int channel, Transfer const& transfer);
  // Of the operation that was opened: takes what that rank sent too early. Error (mismatch).
  void claim(int channel, int source, Connection& connection);
  // The operation is over, however it ended.
  void close(int channel) { lane(channel).busy = false; }

  // A block begins to come from that rank: where it goes. Error (mismatch).
  std::byte* begin(int source, FrameHeader const& block);
  // Makes room for more of a block, as FrameSink has it.
  std::byte* more(int source, FrameHeader const& block, std::size_t bytes, std::byte* to) {
    Fifo<Early>& blocks = early(source, block.channel);
    return !blocks.empty() && blocks.back().number == block.number ? grow(blocks.back().bytes, bytes, block.total) : to;
  }
  // All of it is there.
  void come(int source, FrameHeader const& block);
  // All of this rank's block for that one is on its way.
  void gone(int target, int channel) { settle(lane(channel), lane(channel).unsent, target); }

  // A rank that has not delivered, else one that has not been given its block, or -1.
  int waiting_for(int channel) const;
  // Whether the operation needs that rank.
  bool needs(int channel, int rank) const {
    Lane const& it = lane(channel);
    return it.busy && (it.missing[static_cast<std::size_t>(rank)] || it.unsent[static_cast<std::size_t>(rank)]);
  }

 private:
  // The operation in flight on a channel; operations are counted from 1.
  struct Lane {
    Transfer transfer;
    std::uint64_t number = 0;
    bool busy = false;
    int left = 0;                       // how many of these are set:
    std::vector<char> missing, unsent;  // by rank: its block has not come, or this rank's has not gone
  };
  // A block that came before its operation was posted, or comes.
  struct Early {
    std::uint64_t number = 0, total = 0;
    std::vector<std::byte> bytes;
    bool whole = false;
  };

  Lane& lane(int channel) { return lanes_[static_cast<std::size_t>(channel)]; }
  Lane const& lane(int channel) const { return lanes_[static_cast<std::size_t>(channel)]; }
  Fifo<Early>& early(int source, int channel) {
    return early_[static_cast<std::size_t>(source)][static_cast<std::size_t>(channel)];
  }
  static void settle(Lane& lane, std::vector<char>& of, int rank) {
    lane.left -= lane.busy && std::exchange(of[static_cast<std::size_t>(rank)], 0);
  }

  // Whether a block of this number is of the operation at hand. Error (mismatch) where it can be of none: of an operation that
  // is past, or of a later one while that rank's block for this one is missing.
  bool belongs(Lane const& lane, int source, std::uint64_t number, std::uint64_t bytes) const;
  // What that rank sent, where this one expected something else.
  Error disagreement(int source, std::string const& what) const {
    return {Errc::mismatch, source, "ialltoallv", "", joined({"rank ", source, " ", what, " rank ", rank_})};
  }

  static constexpr std::size_t most_spared = std::size_t{1} << 20;  // bytes of memory that is kept for the next early block

  int rank_ = 0;
  std::vector<char> near_;  // by rank
  std::array<Lane, channels> lanes_;
  std::vector<std::array<Fifo<Early>, channels>> early_;  // by source: in the order of their operations
  std::vector<std::vector<std::byte>> spare_;
};

inline std::uint64_t SocketBlocks::open(int channel, Transfer const& transfer) {
  Lane& it = lane(channel);
  it.transfer = transfer;
  it.busy = true;
  it.left = 0;
  for (std::size_t rank = 0; rank < it.missing.size(); ++rank) {
    bool const other = static_cast<int>(rank) != rank_ && !near_[rank];
    it.missing[rank] = other && transfer.from[rank].bytes > 0;
    it.unsent[rank] = other && transfer.to[rank].bytes > 0;
    it.left += it.missing[rank] + it.unsent[rank];
  }
  return ++it.number;
}

inline bool SocketBlocks::belongs(Lane const& lane, int source, std::uint64_t number, std::uint64_t bytes) const {
  if (number > lane.number) {
    if (lane.busy && lane.missing[static_cast<std::size_t>(source)])
      throw disagreement(source, "sent nothing in this operation to");
    return false;
  }
  bool const expected = number == lane.number && lane.busy && lane.missing[static_cast<std::size_t>(source)];
  std::size_t const expected_bytes = expected ? lane.transfer.from[static_cast<std::size_t>(source)].bytes : 0;
  if (bytes != expected_bytes)
    throw disagreement(source, joined({"sent ", bytes, " bytes where ", expected_bytes, " were expected by"}));
  return true;
}

inline void SocketBlocks::claim(int channel, int source, Connection& connection) {
  Fifo<Early>& blocks = early(source, channel);
  if (blocks.empty()) return;
  Lane& it = lane(channel);
  if (!belongs(it, source, blocks.front().number, blocks.front().total)) return;
  Early block = blocks.pop();
  std::byte* const to = it.transfer.receive + it.transfer.from[static_cast<std::size_t>(source)].offset;
  if (!block.whole) connection.redirect(to);
  std::size_t const here = block.whole ? block.bytes.size() : static_cast<std::size_t>(connection.received());
  if (here > 0) std::memcpy(to, block.bytes.data(), here);
  if (block.whole) settle(it, it.missing, source);
  if (block.bytes.capacity() <= most_spared && spare_.size() < channels) spare_.push_back(std::move(block.bytes));
}

inline std::byte* SocketBlocks::begin(int source, FrameHeader const& block) {
  Lane& it = lane(block.channel);
  if (belongs(it, source, block.number, block.total))
    return it.transfer.receive + it.transfer.from[static_cast<std::size_t>(source)].offset;
  Fifo<Early>& blocks = early(source, block.channel);
  blocks.push({block.number, block.total, {}, false});
  if (!spare_.empty()) {
    blocks.back().bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  return grow(blocks.back().bytes, block.bytes_behind(0), block.total);
}

inline void SocketBlocks::come(int source, FrameHeader const& block) {
  Fifo<Early>& blocks = early(source, block.channel);
  if (!blocks.empty() && blocks.back().number == block.number) blocks.back().whole = true;
  else settle(lane(block.channel), lane(block.channel).missing, source);
}

inline int SocketBlocks::waiting_for(int channel) const {
  Lane const& it = lane(channel);
  if (!it.busy) return -1;
  int const size = static_cast<int>(it.missing.size());
  for (auto const& ranks : {&it.missing, &it.unsent})
    for (int k = 1; k < size; ++k)
      if (int const rank = (rank_ + k) % size; (*ranks)[static_cast<std::size_t>(rank)]) return rank;
  return -1;
}

}  // namespace parallax::detail
