// The things beside the steps of a session, of rooms above it: the session's core has a place for each, and asks or ends it
// where it must.
#pragma once

namespace parallax::inline v0_2::detail {

// Work that goes on behind the steps of a session, such as a save in the background. The core owns one; `finish` settles it,
// and so does each operation that cannot stand beside it.
class Behind {
 public:
  virtual ~Behind() = default;
  // Collective, within an operation of this name. Waits for the end, and throws Refused for what went wrong.
  virtual void settle(char const* operation) = 0;
  // Local. Returns whether something has gone wrong on this rank that nobody was told.
  virtual bool failed() const = 0;
  // Local. Returns whether this rank has not come so far yet that all together can end it.
  virtual bool busy() const = 0;
  // Returns, alike on all ranks, whether it has begun, and comes to its end by all together.
  virtual bool together() const = 0;
};

// A thing that a session holds until it goes, such as the locks of its folders.
class Held {
 public:
  virtual ~Held() = default;
};

// A thing with wishes, by the bits of SessionCore::Wish. It is asked where ranks meet too seldom to be told by every step:
// Checkpoints.
class Wishful {
 public:
  virtual unsigned wishes() = 0;

 protected:
  ~Wishful() = default;
};

}  // namespace parallax::detail
