// Letters between ranks over sockets: the arrived ones, and the credits of requests. An endpoint
// (detail/transport/socket/endpoint.hpp) owns one, and sends for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/comm/letter_queue.hpp"
#include "parallax/detail/transport/socket/frame.hpp"

namespace parallax::inline v0_2::detail {

// Letters of one rank, of which those to itself stay here. Sends nothing itself. All functions are local, and none waits.
class SocketMailbox {
 public:
  MailboxBounds bounds;

  // Makes room for `size` ranks; `rank` is this one. Called once, before anything else.
  void join(int rank, int size, MailboxBounds const& given) {
    bounds = given;
    rank_ = rank;
    peers_.resize(static_cast<std::size_t>(size));
  }

  // Returns true if one more request to that rank would exceed the window.
  bool full(int to) const {
    Peer const& peer = at(to);
    return peer.posted - peer.credited >= static_cast<std::uint64_t>(bounds.window);
  }
  // Counts a request sent to that rank.
  void posted(int to) { ++at(to).posted; }
  // Notes that a rank has taken so many requests since the beginning. Returns false if that cannot be.
  bool credit(int from, std::uint64_t taken) {
    Peer& peer = at(from);
    bool const can_be = taken >= peer.credited && taken <= peer.posted;
    if (can_be) peer.credited = taken;
    return can_be;
  }

  // Posts a copy of a letter of this rank to itself. Returns false, and posts nothing, if the window of requests is full.
  bool post_own(LetterLane lane, LetterParts parts) { return own_[lane_index(lane)].post(parts, lane, bounds.window); }

  // Returns true if that rank may send one more request: as many may wait as the window has.
  bool expects_request(int from) const {
    return at(from).letters[lane_index(LetterLane::requests)].size() < static_cast<std::size_t>(bounds.window);
  }
  // Returns room for the first `bytes` of the letter in arrival from rank `from`, of `total`, with those received so far.
  std::byte* grow(int from, std::size_t bytes, std::uint64_t total) { return detail::grow(at(from).arriving, bytes, total); }
  // Ends the letter in arrival: all of it is there, to be taken.
  void come(int from, LetterLane lane) { at(from).letters[lane_index(lane)].push(std::exchange(at(from).arriving, spare())); }

  // Takes the next letter of that rank, or of any in turn (-1). Returns false if there is none.
  bool take(LetterLane lane, int from, Letter& letter) {
    int const size = static_cast<int>(peers_.size());
    for (int k = 0; k < (from < 0 ? size : 1); ++k) {
      int const writer = from < 0 ? (turns_[lane_index(lane)] + k) % size : from;
      if (writer == rank_ ? !own_[lane_index(lane)].take(letter.bytes) : !take_one(lane, writer, letter)) continue;
      letter.from = writer;
      if (from < 0) turns_[lane_index(lane)] = (writer + 1) % size;
      return true;
    }
    return false;
  }
  // Counts the request just taken of that rank. Returns the requests taken of it so far, for its credit.
  std::uint64_t taken(int from) { return ++at(from).taken; }

 private:
  struct Peer {
    std::uint64_t posted = 0, credited = 0, taken = 0;    // requests
    std::array<Fifo<std::vector<std::byte>>, 2> letters;  // by lane
    std::vector<std::byte> arriving;
  };

  static std::size_t lane_index(LetterLane lane) { return static_cast<std::size_t>(lane); }
  Peer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Peer const& at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  // Takes the first letter of a peer, in exchange for the memory of the letter before. Returns false if there is none.
  bool take_one(LetterLane lane, int writer, Letter& letter) {
    auto& letters = at(writer).letters[lane_index(lane)];
    if (letters.empty()) return false;
    letters.front().swap(letter.bytes);
    spare_ = letters.pop();
    return true;
  }
  // Returns memory for the next letter, of a taken one.
  std::vector<std::byte> spare() { return std::exchange(spare_, {}); }

  int rank_ = 0;
  std::vector<Peer> peers_;         // by rank
  std::array<LetterQueue, 2> own_;  // by lane
  std::array<int, 2> turns_{};      // by lane: the rank to look at first
  std::vector<std::byte> spare_;
};

}  // namespace parallax::detail
