// The language of two ranks on a connection: frames of a header and at most some hundred kilobytes, and an Error as bytes, the
// words of a failing rank. Connections (detail/transport/socket/connection.hpp) read and write frames.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/crc32c.hpp"

namespace parallax::inline v0_2::detail {

// Content of a frame. Ranks agree on the order as well.
enum class FrameKind : std::uint8_t {
  block,      // of an operation on a channel
  request,    // a letter on the lane of requests
  answer,     // a letter on the lane of answers
  credit,     // nothing: so many requests (`number`) were taken, since the beginning
  question,   // the asking rank's RankStatus: it asks for its peer's
  status,     // the RankStatus of a rank, as an answer or to announce a pause
  directory,  // by rank 0: the addresses of all ranks' listeners
  abort,      // an Error: the communicator has failed; these operations are given up (`number`: a bit for each channel)
  goodbye,    // nothing: the rank ends its communicator, and all is well
  place,      // a Place, shown by the rank to others of its host
  found,      // nothing: the rank has found all places of its host, or not (`number`: 1 or 0)
  bell,       // nothing: news in memory shared by both ranks
};
inline constexpr auto last_frame_kind = FrameKind::bell;

// Returns the name of a kind of frame, for errors.
char const* name_of(FrameKind kind);

// The bytes of a message in one frame at most. A begun frame must be ended: an abort waits for so much, and so much is copied
// of a withdrawn block.
inline constexpr std::size_t frame_bytes = std::size_t{256} << 10;

// The header of a frame, in the order of bytes common to both ends. A message of `total` bytes travels as frames with the same
// header, one behind the other. All but the last have `frame_bytes` of it. With `summed`, a sum comes behind the bytes of each
// frame: the CRC-32C of this header and of all bytes of the message up to there.
struct FrameHeader {
  std::uint32_t check = 0;  // the CRC-32C of the bytes behind it
  FrameKind kind = FrameKind::block;
  std::uint8_t channel = 0;  // of a block
  std::uint8_t summed = 0;   // 1 or 0; of a message without bytes nothing is summed
  std::uint8_t unused = 0;   // always 0
  std::uint64_t number = 0;  // of the operation on the channel, from 1; of messages without bytes, their meaning
  std::uint64_t total = 0;   // bytes of the message

  // Returns the right value of `check`.
  std::uint32_t own_check() const {
    return crc32c(0, reinterpret_cast<std::byte const*>(this) + sizeof check, sizeof *this - sizeof check);
  }
  // Returns how many bytes of the message are in the frame behind its first `before`.
  std::size_t bytes_behind(std::uint64_t before) const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(frame_bytes, total - before));
  }
};
static_assert(sizeof(FrameHeader) == 24);

using FrameSum = std::uint32_t;
// Returns a sum in hexadecimal digits, for errors.
std::string in_digits(FrameSum sum);

// Returns how many bytes a message of `total` takes on its connection: with each frame's header, and with `summed` its sum.
inline constexpr std::uint64_t bytes_of_frames(std::uint64_t total, bool summed) {
  std::uint64_t const frames = total > 0 ? (total - 1) / frame_bytes + 1 : 1;
  return total + frames * (sizeof(FrameHeader) + (summed && total > 0 ? sizeof(FrameSum) : 0));
}

// Makes room in `memory` for the first `bytes` of a message of `total`, and returns its place. The bytes read so far bound the
// memory, not the message's own word of its size: of a long one it is never twice as much.
std::byte* grow(std::vector<std::byte>& memory, std::size_t bytes, std::uint64_t total);

// A queue with lasting memory: steady use allocates nothing.
template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == items_.size(); }
  std::size_t size() const { return items_.size() - first_; }
  T& front() { return items_[first_]; }
  T& back() { return items_.back(); }
  // Returns the i-th from the front.
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
  // Keeps the first `count` items alone.
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

// Most bytes of one text of an Error in frames.
inline constexpr std::size_t longest_words = std::size_t{64} << 10;

// Calls add(from, size) with both numbers together, then for each text with its length and its bytes, `longest` at most.
template <class Add>
void add_error(Error const& error, std::size_t longest, Add const& add) {
  std::int32_t const numbers[] = {static_cast<std::int32_t>(error.code()), error.rank()};
  add(numbers, sizeof numbers);
  for (std::string const* text : {&error.operation(), &error.variable(), &error.detail(), &error.report()}) {
    auto const length = static_cast<std::uint32_t>(std::min(text->size(), longest));
    add(&length, sizeof length);
    add(text->data(), length);
  }
}
std::vector<std::byte> error_bytes(Error const& error);

// The bytes of an Error in a frame, made without memory of the heap: of the beginnings of its texts.
struct BriefErrorBytes {
  explicit BriefErrorBytes(Error const& error) {
    add_error(error, 100, [&](void const* from, std::size_t more) {
      if (more > 0) std::memcpy(bytes + size, from, more);
      size += more;
    });
  }
  std::byte bytes[8 + 4 * (4 + 100)];
  std::size_t size = 0;
};

// Most bytes of an Error in frames.
inline constexpr std::size_t most_error_bytes = 2 * sizeof(std::int32_t) + 4 * (sizeof(std::uint32_t) + longest_words);

// Puts a question mark in the place of each sign that a terminal may take for an order: control characters, and bytes of no
// UTF-8. Ends of lines stay if there may be `lines`.
void make_printable(std::span<char> text, bool lines = false);

std::string printable(std::string text);

// Returns the Error sent by a peer, for any bytes: a missing text is empty, a missing or unknown code is `aborted`, and a rank
// missing or not in [0, ranks) is -1. Texts are made printable.
Error error_from(std::span<std::byte const> bytes, int ranks);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/frame-inl.hpp"
#endif
