// The common state of thread ranks: options, boxes for their blocks, journals and letters. `run_threads` makes it, and
// comm/thread.hpp is a rank's end of it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/comm/letter_queue.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/cores.hpp"
#include "parallax/detail/core/function_ref.hpp"

namespace parallax::inline v0_2 {

// Options of a group of threads: the same for all of its ranks.
struct ThreadOptions {
  // Longest wait; a longer one is an Error (timeout).
  std::chrono::nanoseconds deadline = std::chrono::seconds{60};
  // Bounds of the mailbox of every rank.
  MailboxBounds mailbox = {};
};

class ThreadCommunicator;

namespace detail {

// Runs threads like run_threads, and waits for all. Throws a body's first exception; Error (invalid_argument) for a size < 1.
void run_thread_ranks(int size, FunctionRef<void(ThreadCommunicator&)> body, ThreadOptions const& options);

// Letters shared by the ranks: owns a queue for each lane and pair of ranks. The queues are made when the first letter is
// posted: without letters there is no cost. All functions are local; only the first letter takes a lock.
class ThreadLetters {
 public:
  ThreadLetters(int size, MailboxBounds const& given) : bounds{given}, size_{size} {}

  // Posts a copy of a letter, on the thread of rank `from`. Returns false, and posts nothing, if the requests' window is full.
  bool post(LetterLane lane, int from, int to, LetterParts parts) {
    return made()[at(lane, from, to)].post(parts, lane, bounds.window);
  }
  // Takes the next letter to rank `to`, on its thread: of rank `from`, or, if that is -1, of the first rank with a letter from
  // rank `turn` on, and sets `turn` to the rank behind that. Returns false if there is none.
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
  // Returns the index of a queue: by lane, then writer, then reader.
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
  std::unique_ptr<LetterQueue[]> owned_;  // readers see the queues by `queues_`, as soon as they are there
  std::atomic<LetterQueue*> queues_{nullptr};
};

}  // namespace detail

// The common state of one group's ranks. A rank posts the place of its bytes, the receiver copies them and marks the box as
// taken: one copy, no lock. A block that fits lies in the box itself: a sender of such blocks alone waits for nobody to take
// them. Every (channel, sender, receiver) has two boxes, used by its operations in turn; a stamp is 4 x the sender's operation
// number + a mark.
class ThreadGroup {
 public:
  // Local. Makes the boxes of all channels: 8 KiB for each pair of ranks. Throws Error (invalid_argument) if `size` or the
  // mailbox's window is less than 1.
  PARALLAX_COLD explicit ThreadGroup(int size, ThreadOptions options = {});
  // Ends the group, once its last communicator has gone, and drops the letters not taken.
  ~ThreadGroup();

  // Returns the number of ranks, numbered from 0.
  int size() const { return size_; }
  // Returns the given options.
  ThreadOptions const& options() const { return options_; }

  // Local. Aborts with a reason. The first one wins; every rank's next `check` throws it. If `run_threads` supervises, a bare
  // «left by an exception» is held back: the supervisor catches the very exception a moment later and knows its words.
  void abort(Error const& reason);
  // Aborts like `abort` with a reason alone, for a rank that takes part in nothing any more. `gives_up`: as `leave` has it.
  void abort(int rank, Error const& reason, std::uint64_t gives_up) {
    leave(rank, gives_up);
    abort(reason);
  }
  // Returns true if a reason was published; any thread may ask.
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  // Throws the published reason, on any thread; if there is none, it is one load of an atomic.
  void check() {
    if (aborted()) refuse();
  }

 private:
  friend class ThreadCommunicator;
  friend void detail::run_thread_ranks(int size, FunctionRef<void(ThreadCommunicator&)> body, ThreadOptions const& options);

  // Marks of a block: its sender has posted it, its receiver reads it, its receiver is done with it.
  enum Mark : std::uint64_t { posted = 1, reading = 2, taken = 3 };
  // Box of a block. `data` and `bytes` are the sender's until it stores mark `posted`, the receiver's until it stores `taken`.
  struct alignas(64) Box {
    std::atomic<std::uint64_t> stamp{0};
    std::byte const* data = nullptr;
    std::size_t bytes = 0;
    std::byte inside[64];  // of a small block: `data` leads here

    // Returns true if the sender may write to it: nothing was posted yet, or it was taken.
    bool free() const { return stamp.load(std::memory_order_acquire) % 4 % taken == 0; }
  };

  // A rank's loan on a channel: the number of the open loan, or 0, and the number of peers holding it.
  struct alignas(64) Loan {
    std::atomic<std::uint64_t> open{0}, holders{0};
  };

  // A rank's reading in place: true while it reads memory of other ranks, and how many times it has read all that it had to.
  struct alignas(64) Reader {
    std::atomic<bool> reads{false};
    std::atomic<std::uint64_t> turns{0};
  };

  // Returns a rank's loan on a channel. Channels from `channels` on are for operations on device memory.
  Loan& loan(int channel, int rank) { return loans_[static_cast<std::size_t>(channel * size_ + rank)]; }

  // Returns the number of boxes: two for each channel, sender and receiver.
  static std::size_t boxes_of(int size) {
    return static_cast<std::size_t>(2 * channels) * static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  }
  // Returns the box of an operation, by channel, then sender, then receiver, and by its number.
  Box& box(int channel, int source, int target, std::uint64_t number) {
    return boxes_[2 * static_cast<std::size_t>((channel * size_ + source) * size_ + target) + number % 2];
  }

  // Throws the published reason, which must be there.
  [[noreturn]] void refuse();
  // Throws the published reason. Waits for one if it is held back; after the deadline throws the one held back.
  [[noreturn]] PARALLAX_COLD void refuse_soon();
  // Lets a rank go, by itself or by the thread that has run its body: it takes part in nothing any more, and gives up all
  // operations in flight on these channels, a bit for each. Does nothing for a rank that has gone before.
  void leave(int rank, std::uint64_t gives_up) {
    std::uint64_t none = 0;
    gone_[static_cast<std::size_t>(rank)].compare_exchange_strong(none, is_gone | gives_up);
  }
  // Lets a rank go after its body's end without an exception.
  void end(int rank) {
    leave(rank, has_ended);
    some_ended_.store(true, std::memory_order_relaxed);
  }
  // Returns true once the body of some rank has ended without an exception; one load.
  bool some_ended() const { return some_ended_.load(std::memory_order_relaxed); }
  // Aborts with Error (transport), not thrown: a rank is waited for after its body's end. A reason held back comes first.
  PARALLAX_COLD void miss(int rank);
  // Returns true if that rank takes part in nothing any more, or, for `how` has_ended, if its body has ended without an abort.
  // The caller then sees all that the rank did before.
  bool gone(int rank, std::uint64_t how = is_gone) const {
    return (gone_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire) & how) != 0;
  }
  // Returns true if a gone rank has given up the operation in flight on the channel: then no rank completes it.
  bool given_up(int channel) const {
    for (auto const& rank : gone_)
      if ((rank.load(std::memory_order_acquire) >> channel) & 1) return true;
    return false;
  }
  // Returns true for a quarter of a second after an abort: operations without need of a gone rank are waited for so long.
  bool lingers() const { return std::chrono::steady_clock::now() - aborted_at_ < std::chrono::milliseconds{250}; }
  // Publishes a reason, under the caller's lock: the first one stays, and from now on `check` throws it.
  void publish(Error const& reason);
  // Begins supervision, by run_threads, before the ranks start: from now on a bare abort is held back.
  void supervise() { supervised_ = true; }
  // Publishes a held back reason, if there is one, after a body's end without an exception: somebody has caught an exception
  // that had left a session, and peers must hear of it.
  void publish_held_back();

  int const size_;
  ThreadOptions const options_;
  detail::Birth const birth_;  // in a forked child there is no other rank
  bool const oversubscribed_ = detail::outnumber(size_, detail::usable_cores(detail::CoreSet::own()));  // asked once: slow
  // By channel, sender and receiver.
  std::vector<Box> boxes_;
  std::vector<Loan> loans_;  // by channel, then rank; behind them, as further channels, loans for operations on device memory
  // By rank: each is written by its rank and read by all.
  std::vector<Journal> journals_;
  std::vector<Reader> readers_;
  detail::ThreadLetters letters_;
  std::atomic<bool> aborted_{false}, left_{false};  // a reason is published; there is one, perhaps held back
  std::atomic<bool> some_ended_{false};
  std::chrono::steady_clock::time_point aborted_at_{};
  // Bits of `gone_`: behind the channels', an end without an exception, and a wait for others to have read in place (`turns`).
  static constexpr int turns = 62;
  static constexpr std::uint64_t is_gone = std::uint64_t{1} << 63, has_ended = std::uint64_t{1} << 61,
                                 everything = ~(is_gone | has_ended);
  std::vector<std::atomic<std::uint64_t>> gone_;  // by rank; 0: not gone
  bool supervised_ = false;
  // Of the reasons.
  std::mutex mutex_;
  std::optional<Error> reason_, held_back_;
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/thread/group-inl.hpp"
#endif
