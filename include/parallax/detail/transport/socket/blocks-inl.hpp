// Bodies of parallax/detail/transport/socket/blocks.hpp.
#pragma once

#include "parallax/detail/transport/socket/blocks.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::uint64_t SocketBlocks::open(int channel, Transfer const& transfer) {
  ChannelState& it = state(channel);
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

PARALLAX_INLINE bool SocketBlocks::belongs(ChannelState const& state, int source, std::uint64_t number,
                                           std::uint64_t bytes) const {
  if (number > state.number) {
    if (state.busy && state.missing[static_cast<std::size_t>(source)])
      throw disagreement(source, "sent nothing in this operation to");
    return false;
  }
  bool const expected = number == state.number && state.busy && state.missing[static_cast<std::size_t>(source)];
  std::size_t const expected_bytes = expected ? state.transfer.from[static_cast<std::size_t>(source)].bytes : 0;
  if (bytes != expected_bytes)
    throw disagreement(source, joined({"sent ", bytes, " bytes where ", expected_bytes, " were expected by"}));
  return true;
}

PARALLAX_INLINE void SocketBlocks::claim(int channel, int source, Connection& connection) {
  Fifo<Early>& blocks = early(source, channel);
  if (blocks.empty()) return;
  ChannelState& it = state(channel);
  if (!belongs(it, source, blocks.front().number, blocks.front().total)) return;
  Early block = blocks.pop();
  std::byte* const to = it.transfer.receive + it.transfer.from[static_cast<std::size_t>(source)].offset;
  if (!block.whole) connection.redirect(to);
  std::size_t const here = block.whole ? block.bytes.size() : static_cast<std::size_t>(connection.received());
  if (here > 0) std::memcpy(to, block.bytes.data(), here);
  if (block.whole) settle(it, it.missing, source);
  if (block.bytes.capacity() <= most_spared && spare_.size() < channels) spare_.push_back(std::move(block.bytes));
}

PARALLAX_INLINE std::byte* SocketBlocks::begin(int source, FrameHeader const& block) {
  ChannelState& it = state(block.channel);
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

PARALLAX_INLINE void SocketBlocks::come(int source, FrameHeader const& block) {
  Fifo<Early>& blocks = early(source, block.channel);
  if (!blocks.empty() && blocks.back().number == block.number) blocks.back().whole = true;
  else settle(state(block.channel), state(block.channel).missing, source);
}

PARALLAX_INLINE int SocketBlocks::waiting_for(int channel) const {
  ChannelState const& it = state(channel);
  if (!it.busy) return -1;
  int const size = static_cast<int>(it.missing.size());
  for (auto const& ranks : {&it.missing, &it.unsent})
    for (int k = 1; k < size; ++k)
      if (int const rank = (rank_ + k) % size; (*ranks)[static_cast<std::size_t>(rank)]) return rank;
  return -1;
}

}  // namespace parallax::detail
