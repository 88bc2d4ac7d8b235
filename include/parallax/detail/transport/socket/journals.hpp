// The journals of ranks over sockets: this rank's own, and the statuses sent by other ranks. An endpoint
// (detail/transport/socket/endpoint.hpp) owns one, and sends its questions and answers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/transport/socket/frame.hpp"

namespace parallax::inline v0_2::detail {

// Journals by rank: this rank's own, and the last status sent by each peer. A question carries the asker's own status, and its
// receiver keeps it. Times in statuses of peers are shifted to this rank's clock. Local; sends nothing itself, and never waits.
class SocketJournals {
 public:
  // This rank's own journal.
  Journal journal;

  // Makes room for the statuses of `size` ranks. Called once, before anything else.
  void join(int size) { peers_.resize(static_cast<std::size_t>(size)); }

  // Returns a peer's last status: its answer, with `fresh` true, or an announced pause; nothing if there is neither.
  std::optional<RankStatus> status_of(int other, bool& fresh) const {
    Peer const& peer = at(other);
    fresh = peer.answered;
    return fresh || peer.paused() ? peer.heard : std::nullopt;
  }
  // Returns true, once for each rank, if the caller is to ask it now. Answers so far do not count any more.
  bool asks(int other) {
    if (std::exchange(at(other).asked, true)) return false;
    at(other).answered = false;
    return true;
  }
  // Returns true if that rank waits for an answer, which the caller gives now.
  bool owes(int other) { return std::exchange(at(other).waits, false); }

  // Returns room for a status in arrival from rank `from`, until `come`.
  std::byte* begin(int from) { return reinterpret_cast<std::byte*>(&at(from).arriving); }
  // Takes in a status, all of which is there. `question`: it asks for this rank's.
  void come(int from, bool question) {
    Peer& peer = at(from);
    RankStatus told = checked(peer.arriving);
    std::int64_t const late =
        std::chrono::steady_clock::now().time_since_epoch().count() - told.told;  // as if its clock were ours
    for (JournalEntry& entry : told.last) entry.began += late, entry.changed += late;
    told.told += late;
    peer.heard = told;
    peer.answered = true;
    peer.waits = peer.waits || question;
  }
  // Returns the longest of the pauses announced by peers and not ended; 0 if there is none.
  std::chrono::nanoseconds longest_pause() const {
    std::int64_t longest = 0;
    for (Peer const& peer : peers_)
      if (peer.paused()) longest = std::max(longest, peer.heard->pause);
    return std::chrono::nanoseconds{longest};
  }

 private:
  struct Peer {
    std::optional<RankStatus> heard;
    RankStatus arriving;
    bool asked = false, answered = false, waits = false;  // answered: since it was asked
    bool paused() const { return heard && heard->pause > 0; }
  };

  // Returns a rank's status with words that end and can be shown, and with a rank of the world.
  RankStatus checked(RankStatus told) const {
    auto const check = [](auto& word) {
      std::span const text{reinterpret_cast<char*>(&word), sizeof word};
      text.back() = '\0';
      make_printable(text.first(std::strlen(text.data())));
    };
    for (JournalEntry& entry : told.last) {
      check(entry.operation), check(entry.phase), check(entry.variable);
      entry.done = reinterpret_cast<unsigned char const&>(entry.done) != 0;
    }
    check(told.pausing);
    if (told.waiting_for < -1 || told.waiting_for >= static_cast<int>(peers_.size())) told.waiting_for = -1;
    return told;
  }

  Peer& at(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  Peer const& at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  std::vector<Peer> peers_;  // by rank
};

}  // namespace parallax::detail
