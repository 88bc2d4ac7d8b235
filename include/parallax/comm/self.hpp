// The communicator of one rank: made by a trainer that is not distributed yet, and by whoever wants the result of one rank to
// compare others with.
#pragma once

#include <cstring>
#include <optional>

#include "parallax/comm/communicator.hpp"

namespace parallax {

// A communicator of one rank, without threads, processes or a library behind it. Every exchange copies the rank's block for
// itself and is complete when it returns. It has the core of a communicator and no optional ability. May be moved at any time.
class SelfCommunicator {
 public:
  // An exchange that was complete when it was posted. Refers to nothing.
  class Request {
   public:
    // True from the start: `ialltoallv` has copied the block.
    bool test() const { return true; }
    // Always -1: there is nobody to wait for.
    int waiting_for() const { return -1; }
  };

  // Always 0.
  int rank() const { return 0; }
  // Always 1.
  int size() const { return 1; }
  // 60 s; no exchange ever waits for it.
  std::chrono::nanoseconds deadline() const { return std::chrono::seconds{60}; }

  // Copies the block of rank 0 for rank 0, at once; the two may overlap. `channel` is ignored, and no channel is ever busy.
  // Throws Error (mismatch) where the rank sends itself another size than it expects, and the reason after an abort.
  Request ialltoallv(int /*channel*/, Transfer const& transfer) {
    if (reason_) throw *reason_;
    ByteRange const out = transfer.to[0], in = transfer.from[0];
    if (out.bytes != in.bytes)
      throw Error{Errc::mismatch, 0, "ialltoallv", "",
                  joined({"sends ", out.bytes, " bytes to itself but expects ", in.bytes})};
    if (out.bytes) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
    return {};
  }

  // From now on every `ialltoallv` throws this reason; the first one stays.
  void abort(Error const& reason) {
    if (!reason_) reason_ = reason;
  }

 private:
  // Of the first abort.
  std::optional<Error> reason_;
};

}  // namespace parallax
