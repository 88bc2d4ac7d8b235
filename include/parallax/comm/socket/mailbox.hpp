// Letters between ranks over sockets: those that came and were not taken, and the credits of requests. An endpoint
// (comm/socket/endpoint.hpp) owns one, and sends what it says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/comm/letter_queue.hpp"
#include "parallax/comm/socket/frame.hpp"

namespace parallax::detail {

// Does not send anything itself. What a rank writes to itself stays here.
class SocketMailbox {
 public:
  MailboxBounds bounds;

  // Called once, before anything else.
  void join(int rank, int size, MailboxBounds const& given) {
    bounds = given;
    rank_ = rank;
    peers_.resize(static_cast<std::size_t>(size));
  }

  // Whether one more request to that rank would exceed the window.
  bool full(int to) const {
    Peer const& peer = at(to);
    return peer.posted - peer.credited >= static_cast<std::uint64_t>(bounds.window);
  }
  // A request was sent to that rank.
  void posted(int to) { ++at(to).posted; }
  // That rank has taken so many requests since the beginning.
  void credit(int from, std::uint64_t taken) { at(from).credited = taken; }

  // This rank's letters to itself: as LetterQueue has it.
  bool post_own(LetterLane lane, LetterParts parts) { return own_[index(lane)].post(parts, lane, bounds.window); }

  // A letter begins to come: where it goes.
  std::byte* begin(int from, std::size_t bytes) {
    at(from).arriving.resize(bytes);
    return at(from).arriving.data();
  }
  // All of it is there.
  void come(int from, LetterLane lane) { at(from).letters[index(lane)].push(std::exchange(at(from).arriving, spare())); }

  // The next letter of that rank, or of any in turn (-1). False where there is none.
  bool take(LetterLane lane, int from, Letter& letter) {
    int const size = static_cast<int>(peers_.size());
    for (int k = 0; k < (from < 0 ? size : 1); ++k) {
      int const writer = from < 0 ? (turns_[index(lane)] + k) % size : from;
      if (writer == rank_ ? !own_[index(lane)].take(letter.bytes) : !take_one(lane, writer, letter)) continue;
      letter.from = writer;
      if (from < 0) turns_[index(lane)] = (writer + 1) % size;
      return true;
    }
    return false;
  }
  // Of the request that was just taken of that rank: what its credit says.
  std::uint64_t taken(int from) { return ++at(from).taken; }

 private:
  struct Peer {
    std::uint64_t posted = 0, credited = 0, taken = 0;    // requests
    std::array<Fifo<std::vector<std::byte>>, 2> letters;  // by lane
    std::vector<std::byte> arriving;
  };

  static std::size_t index(LetterLane lane) { return static_cast<std::size_t>(lane); }
  Peer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Peer const& at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  // The first letter of a peer, in exchange for the memory of the letter before.
  bool take_one(LetterLane lane, int writer, Letter& letter) {
    auto& letters = at(writer).letters[index(lane)];
    if (letters.empty()) return false;
    letters.front().swap(letter.bytes);
    spare_ = letters.pop();
    return true;
  }
  // Memory for the next letter, of one that was taken.
  std::vector<std::byte> spare() { return std::exchange(spare_, {}); }

  int rank_ = 0;
  std::vector<Peer> peers_;         // by rank
  std::array<LetterQueue, 2> own_;  // by lane
  std::array<int, 2> turns_{};      // by lane: who is looked at first
  std::vector<std::byte> spare_;
};

}  // namespace parallax::detail
