// The communicator of one rank: made by a trainer not yet distributed, and wherever the result of one rank is wanted for
// comparison.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/comm/letter_queue.hpp"

namespace parallax::inline v0_2 {

// A communicator of one rank, without threads, processes or a library behind it. Every exchange copies the rank's block for
// itself and is complete when it returns. Of optional abilities it has a Mailbox, on which a trainer apart runs alone. May be
// moved at any time.
class SelfCommunicator {
 public:
  // An exchange, complete when it was posted. Refers to nothing.
  class Request {
   public:
    // Returns true from the start: `ialltoallv` has copied the block.
    bool test() const { return true; }
    // Returns -1: there is nobody to wait for.
    int waiting_for() const { return -1; }
  };

  SelfCommunicator() = default;
  // Makes a communicator whose mailbox has these bounds. Throws Error (invalid_argument) for a window below 1.
  explicit SelfCommunicator(MailboxBounds const& bounds) : bounds_{bounds} {
    detail::check_bounds(bounds, bounds.largest, "SelfCommunicator");
  }

  // Returns 0.
  int rank() const { return 0; }
  // Returns 1.
  int size() const { return 1; }
  // Returns 60 s; no exchange ever waits.
  std::chrono::nanoseconds deadline() const { return std::chrono::seconds{60}; }

  // Copies the block of rank 0 for rank 0, at once; the two may overlap. `channel` is ignored, and no channel is ever busy.
  // Throws Error (mismatch) if the rank sends itself another size than it expects, and the reason after an abort.
  Request ialltoallv(int /*channel*/, Transfer const& transfer) {
    if (reason_) throw *reason_;
    ByteRange const out = transfer.to[0], in = transfer.from[0];
    if (out.bytes != in.bytes)
      throw Error{Errc::mismatch, 0, "ialltoallv", "",
                  joined({"sends ", out.bytes, " bytes to itself but expects ", in.bytes})};
    if (out.bytes) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
    return {};
  }

  // Local. Makes every later `ialltoallv`, `post` and `take` throw this reason; the first one stays.
  void abort(Error const& reason) {
    if (!reason_) reason_ = reason;
  }

  // Returns the bound of letters in flight: 8 unless it was given.
  int window() const { return bounds_.window; }
  // Returns the bound of a letter's bytes: 64 MiB unless it was given.
  std::size_t largest() const { return bounds_.largest; }
  // Posts a letter of rank 0 to itself: see Mailbox for result and errors.
  bool post(LetterLane lane, int to, LetterParts parts) {
    if (reason_) throw *reason_;
    detail::check_letter(0, 1, to, parts, largest());
    auto& waiting = letters_[static_cast<int>(lane)];
    if (lane == LetterLane::requests && waiting.size() == static_cast<std::size_t>(window())) return false;
    detail::write_letter(waiting.emplace_back(), parts);
    return true;
  }
  // Takes the oldest letter of a lane: see Mailbox for result and errors.
  bool take(LetterLane lane, int from, Letter& letter) {
    if (reason_) throw *reason_;
    detail::check_writer(0, 1, from);
    auto& waiting = letters_[static_cast<int>(lane)];
    if (waiting.empty()) return false;
    letter.from = 0;
    letter.bytes = std::move(waiting.front());
    waiting.erase(waiting.begin());
    return true;
  }

 private:
  MailboxBounds bounds_;
  // Letters by lane, in the order of their posting.
  std::vector<std::vector<std::byte>> letters_[2];
  // Of the first abort.
  std::optional<Error> reason_;
};

}  // namespace parallax
