// The letters of a group of threads: a queue for each lane and pair of ranks. comm/thread.hpp posts to it and takes from it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include "parallax/detail/comm/letter_queue.hpp"

namespace parallax::inline v0_2::detail {

// Letters shared by the ranks. The queues are made when the first letter is posted: without letters there is no cost.
class ThreadLetters {
 public:
  ThreadLetters(int size, MailboxBounds const& given) : bounds{given}, size_{size} {}

  // Posts, by the writer, like LetterQueue.
  bool post(LetterLane lane, int from, int to, LetterParts parts) {
    return made()[at(lane, from, to)].post(parts, lane, bounds.window);
  }
  // Takes the next letter to rank `to`: of `from`, or, if it is -1, of the first rank with a letter, from `turn` on.
  bool take(LetterLane lane, int from, int to, int& turn, Letter& letter) {
    LetterQueue* const queues = queues_.load(std::memory_order_acquire);
    if (!queues) return false;
    for (int k = 0; k < (from < 0 ? size_ : 1); ++k) {
      int const writer = from < 0 ? (turn + k) % size_ : from;
      if (!queues[at(lane, writer, to)].take(letter.bytes)) continue;
      letter.from = writer;
      if (from < 0) turn = (writer + 1) % size_;
      return true;
    }
    return false;
  }

  MailboxBounds const bounds;

 private:
  // Returns the index of a queue: by lane, writer and reader.
  std::size_t at(LetterLane lane, int from, int to) const {
    return static_cast<std::size_t>((static_cast<int>(lane) * size_ + from) * size_ + to);
  }
  // Returns the queues, made by the first writer of any rank: two for each pair of ranks.
  LetterQueue* made() {
    if (LetterQueue* const queues = queues_.load(std::memory_order_acquire)) return queues;
    std::lock_guard const lock{mutex_};
    auto const ranks = static_cast<std::size_t>(size_);
    if (!owned_) owned_ = std::make_unique<LetterQueue[]>(2 * ranks * ranks);
    queues_.store(owned_.get(), std::memory_order_release);
    return owned_.get();
  }

  int const size_;
  std::mutex mutex_;
  // Owner of the queues. Readers see them by `queues_`, as soon as they are there.
  std::unique_ptr<LetterQueue[]> owned_;
  std::atomic<LetterQueue*> queues_{nullptr};
};

}  // namespace parallax::detail
