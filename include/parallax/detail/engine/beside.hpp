// Things beside the steps of a session, made in rooms above this one. The session's core has places for them, and asks or ends
// them.
#pragma once

namespace parallax::inline v0_2::detail {

// Work behind the steps of a session, such as a save in the background. The core owns one. It is settled by `finish`, and by
// each operation that cannot stand beside it.
class Behind {
 public:
  virtual ~Behind() = default;
  // Collective, within an operation of this name. Waits for the end, and throws Refused for a failure of the work.
  virtual void settle(char const* operation) = 0;
  // Local. Returns true if something has gone wrong on this rank, and nobody was told.
  virtual bool failed() const = 0;
  // Local. Returns true if this rank has not come so far yet that all together can end the work.
  virtual bool busy() const = 0;
  // Returns, alike on all ranks, true if the work has begun and comes to its end by all together.
  virtual bool together() const = 0;
};

// A thing held by a session until the session goes, such as the locks of its folders.
class Held {
 public:
  virtual ~Held() = default;
};

// A thing with wishes, by the bits of SessionCore::Wish: Checkpoints. Asked if ranks meet too seldom to be told by every step.
class Wishful {
 public:
  virtual unsigned wishes() = 0;

 protected:
  ~Wishful() = default;
};

}  // namespace parallax::detail
