// Things beside the steps of a session, made in rooms above this one. The session's core has places for them, and asks or ends
// them.
#pragma once

namespace parallax::inline v0_2::detail {

// Work behind the steps of a session, such as a save in the background. The core owns one, or none. `finish` settles it, and so
// does each operation that cannot stand beside it. Waits of `settle` are the session's, with Error (timeout).
class Behind {
 public:
  virtual ~Behind() = default;
  // Collective, within an operation of this name. Waits for the end on all ranks. Throws Refused if the work failed on any.
  virtual void settle(char const* operation) = 0;
  // Local. Returns true if something has gone wrong on this rank, and nobody was told.
  virtual bool failed() const = 0;
  // Local. Returns true while this rank's own part of the work goes on: `settle` would wait for its end.
  virtual bool busy() const = 0;
  // Local, and alike on all ranks. Returns true if work has begun that only all ranks together, in `settle`, can end.
  virtual bool together() const = 0;
};

// A thing held by a session until the session goes, such as the locks of its folders. The core owns it.
class Held {
 public:
  virtual ~Held() = default;
};

// Source of this rank's wishes to all ranks: Checkpoints. An engine whose ranks do not meet in every step asks it.
class Wishful {
 public:
  virtual unsigned wishes() = 0;  // local; returns bits of SessionCore::Wish

 protected:
  ~Wishful() = default;
};

}  // namespace parallax::detail
