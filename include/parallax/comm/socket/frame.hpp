// What two ranks say to each other over a connection: frames of a header and at most some hundred kilobytes. Connections
// (comm/socket/connection.hpp) read and write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace parallax::detail {

// What a frame carries. The order is part of what ranks agree on.
enum class FrameKind : std::uint8_t {
  block,      // of an operation on a channel
  request,    // a letter
  answer,     // a letter, likewise
  credit,     // nothing: so many requests (`number`) were taken, since the beginning
  question,   // the Status of a rank that asks for its peer's
  status,     // the Status of a rank that was asked, or announces a pause
  directory,  // by rank 0: where every rank listens
  abort,      // an Error: the communicator has failed
  goodbye,    // nothing: the rank ends its communicator, and all is well
  place,      // a Place: what the rank shows to those of its host
  found,      // nothing: whether the rank has found what those of its host show (`number`: 1 or 0)
  bell,       // nothing: something has changed in memory that both ranks share
};
inline constexpr auto last_frame_kind = FrameKind::bell;

// Opens a frame, in the order of bytes that both ends share. A message of `total` bytes travels as frames with the same number,
// one behind the other, of which all but the last have `frame_bytes` of it.
struct FrameHeader {
  std::uint32_t bytes = 0;  // of the message in this frame
  FrameKind kind = FrameKind::block;
  std::uint8_t channel = 0;  // of a block
  std::uint16_t unused = 0;  // always 0
  std::uint64_t number = 0;  // of the operation on the channel, from 1; of what has no bytes, its meaning
  std::uint64_t total = 0;   // bytes of the message
};
static_assert(sizeof(FrameHeader) == 24);

// Bytes of a message in one frame at most. A frame that has begun must be ended, so that this is what an abort waits for, and
// what is copied of a block that is withdrawn.
inline constexpr std::size_t frame_bytes = std::size_t{256} << 10;

// A queue which keeps its memory: steady use allocates nothing.
template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == items_.size(); }
  std::size_t size() const { return items_.size() - first_; }
  T& front() { return items_[first_]; }
  T& back() { return items_.back(); }
  // The i-th from the front.
  T& operator[](std::size_t i) { return items_[first_ + i]; }
  void push(T item) {
    if (first_ > 0 && items_.size() == items_.capacity()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    items_.push_back(std::move(item));
  }
  T pop() {
    T item = std::move(items_[first_++]);
    if (empty()) clear();
    return item;
  }
  // Keeps the first `count` alone.
  void cut(std::size_t count) {
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(first_ + count), items_.end());
    if (empty()) clear();
  }
  void clear() {
    items_.clear();
    first_ = 0;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;  // those before it were taken
};

}  // namespace parallax::detail
