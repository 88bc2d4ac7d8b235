// The loans of a rank over sockets to others of its host, and its holds on theirs. The endpoint
// (detail/transport/socket/endpoint.hpp) has one with the memory shared by them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/transport/host/loans.hpp"
#include "parallax/detail/transport/socket/peers.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax::inline v0_2::detail {

// Loans of one rank. Memory of SharedSpace is lent in its place. A rank waits for the holders of a returned loan, but not for a
// process that has ended, nor for long: then it takes other pages for the lent memory.
class SocketLending {
 public:
  // `here`: the ranks of the host, parties to these loans. Before this, nobody holds anything. Both must outlive this object.
  void join(Loans& loans, std::vector<int> const& here) {
    loans_ = &loans;
    here_ = &here;
    cut_off_.resize(here.size());
  }

  // As LendsMemory has them.
  Place place_of(void const* memory) {
    Place const place = shared_blocks.place_of(memory);
    if (place.id && std::find(shown_.begin(), shown_.end(), place.id) == shown_.end()) shown_.push_back(place.id);
    return place;
  }
  std::byte* window(int channel, std::size_t bytes) {
    auto& window = windows_[static_cast<std::size_t>(channel)];
    window.resize_with_slack(bytes);
    return window.data();
  }
  std::uint64_t lend(int channel) {
    lent_[static_cast<std::size_t>(channel)].swap(shown_);
    shown_.clear();
    return loans_ ? loans_->open(channel) : 0;
  }
  bool hold(int channel, int rank, std::uint64_t number) { return !loans_ || loans_->hold(channel, place(rank), number); }
  void release(int channel, int rank) noexcept {
    if (loans_) loans_->release(channel, place(rank));
  }
  // Takes back the channel's lent memory. Does nothing in a forked child, as it has lent nothing.
  void reclaim(int channel, SocketPeers& peers) noexcept;
  // Returns the address of a place; null if its memory has gone, or never was. Error (transport) with `rank`, this one, for its
  // own lack.
  std::byte* address_of(Place const& place, int rank) const {
    std::byte* const memory = shared_blocks.address_of(place);
    if (memory || !is_lack()) return memory;
    throw Error{Errc::transport, rank, "lending", "",
                joined({place.bytes, " bytes that another rank lends cannot be mapped: ", std::strerror(errno)})};
  }

 private:
  static constexpr std::chrono::milliseconds patience{100};  // with a holder: it sums for less than one

  std::size_t place(int rank) const {
    return static_cast<std::size_t>(std::find(here_->begin(), here_->end(), rank) - here_->begin());
  }
  // Returns true if that rank may still touch the lent memory.
  bool held(int channel, std::size_t holder, SocketPeers& peers) {
    return loans_->held(channel, holder) && !cut_off_[holder] && !peers.connection((*here_)[holder]).ended();
  }
  // Moves the memory lent on a channel to other pages. False if there is no memory for them.
  bool renew(int channel) noexcept {
    auto const& blocks = lent_[static_cast<std::size_t>(channel)];
    return std::all_of(blocks.begin(), blocks.end(), [](std::uint64_t id) { return shared_blocks.renew(id); });
  }

  Birth birth_;
  Loans* loans_ = nullptr;
  std::vector<int> const* here_ = nullptr;
  std::vector<char> cut_off_;  // by place: it holds something on pages left by this rank
  std::array<SharedBuffer<std::byte>, channels> windows_;
  std::vector<std::uint64_t> shown_;                       // the blocks of places asked for since the last loan
  std::array<std::vector<std::uint64_t>, channels> lent_;  // the blocks of the channel's loan
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/lending-inl.hpp"
#endif
