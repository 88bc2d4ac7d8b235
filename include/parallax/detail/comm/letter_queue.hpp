// Letters on their way within a process, and the checks of every mailbox: included by authors of a communicator with a Mailbox.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/published.hpp"

namespace parallax::inline v0_2::detail {

// Returns the size of a letter: all parts together.
inline std::size_t letter_bytes(LetterParts parts) {
  std::size_t bytes = 0;
  for (auto const& part : parts) bytes += part.size();
  return bytes;
}

// Puts the parts together in `bytes`, in place of an earlier letter.
inline void write_letter(std::vector<std::byte>& bytes, LetterParts parts) {
  bytes.clear();
  bytes.reserve(letter_bytes(parts));
  for (auto const& part : parts) bytes.insert(bytes.end(), part.data(), part.data() + part.size());
}

// Checks the bounds for the maker of a mailbox: throws Error (invalid_argument) for a window below 1, or for letters larger
// than `most` bytes, the most it can carry. `where`: the type to be made.
inline void check_bounds(MailboxBounds const& bounds, std::size_t most, char const* where) {
  if (bounds.window >= 1 && bounds.largest <= most) return;
  throw Error{Errc::invalid_argument, -1, where, "",
              bounds.window < 1 ? joined({"the mailbox's window is ", bounds.window})
                                : joined({"the mailbox's largest letter has ", bounds.largest, " bytes"})};
}
// Checks a letter for `post`, before anything is copied: throws Error (invalid_argument) for a rank that is not there, or for a
// letter of more than `largest` bytes.
inline void check_letter(int rank, int size, int to, LetterParts parts, std::size_t largest) {
  bool const there = to >= 0 && to < size;
  std::size_t const bytes = there ? letter_bytes(parts) : 0;
  if (there && bytes <= largest) return;
  throw Error{
      Errc::invalid_argument, rank, "post", "",
      there ? joined({"a letter of ", bytes, " bytes, where ", largest, " are the most"}) : joined({"there is no rank ", to})};
}
// Checks a rank for `take`: throws Error (invalid_argument) if it is not there; -1 is any rank.
inline void check_writer(int rank, int size, int from) {
  if (from < -1 || from >= size) throw Error{Errc::invalid_argument, rank, "take", "", joined({"there is no rank ", from})};
}

// The letters of one rank to another on one lane, in order. One thread posts and one takes; no lock. They lie in rings: behind
// a ring full of answers a larger one is put, and the reader goes on to it once it has emptied the first.
class LetterQueue {
 public:
  LetterQueue() = default;
  LetterQueue(LetterQueue&&) = delete;
  ~LetterQueue() {
    for (Ring* ring = reading_ ? reading_ : first_.seen(); ring;) delete std::exchange(ring, ring->next.seen());
  }

  // Posts a copy of a letter, by the writer. Returns false, and keeps nothing, if `window` requests are not taken yet.
  bool post(LetterParts parts, LetterLane lane, int window) {
    Ring* ring = writing_;
    if (!ring || ring->full()) {
      if (ring && lane == LetterLane::requests) return false;
      ring = new Ring{ring ? 2 * ring->capacity : static_cast<std::size_t>(window)};
      (writing_ ? writing_->next : first_).publish(ring);
      writing_ = ring;
    }
    std::uint64_t const written = ring->written.own();
    write_letter(ring->at(written), parts);
    ring->written.publish(written + 1);
    return true;
  }

  // Takes the next letter, by the reader, into `bytes`; the memory there goes to the queue. Returns false if there is none.
  bool take(std::vector<std::byte>& bytes) {
    while (!reading_ || reading_->empty()) {
      Ring* const next = (reading_ ? reading_->next : first_).seen();
      if (!next) return false;
      if (reading_ && !reading_->empty()) break;  // written before the ring that was put behind
      delete std::exchange(reading_, next);
    }
    std::uint64_t const read = reading_->read.own();
    reading_->at(read).swap(bytes);
    reading_->read.publish(read + 1);
    return true;
  }
  // Returns true if there is none to take, by the reader.
  bool empty() const {
    for (Ring const* ring = reading_ ? reading_ : first_.seen(); ring; ring = ring->next.seen())
      if (!ring->empty()) return false;
    return true;
  }

 private:
  // A ring of letters, numbered from 0 as they were posted to it: letter i lies in slot i mod `capacity`.
  struct Ring {
    explicit Ring(std::size_t count) : capacity{count}, letters(count) {}

    // Returns the slot of a letter; its memory is kept from one letter to the next.
    std::vector<std::byte>& at(std::uint64_t number) { return letters[static_cast<std::size_t>(number % capacity)]; }
    bool full() const { return written.own() - read.seen() == capacity; }  // for the writer
    bool empty() const { return read.own() == written.seen(); }            // for the reader

    // A power of two times the window.
    std::size_t const capacity;
    List<std::vector<std::byte>> letters;
    alignas(64) Published<std::uint64_t> written;  // by the writer, and so is `next`, behind the last letter of this ring
    Published<Ring*> next;
    alignas(64) Published<std::uint64_t> read;  // by the reader
  };

  // Written once by the writer, for the reader to begin with.
  alignas(64) Published<Ring*> first_;
  Ring* writing_ = nullptr;              // the writer's
  alignas(64) Ring* reading_ = nullptr;  // the reader's
};

}  // namespace parallax::detail
