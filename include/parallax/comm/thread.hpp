// N ranks as threads of one process: the communicator of a single machine (`run_threads` for trainers), and the test bed of
// everything else.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/own_thread.hpp"
#include "parallax/detail/launch/last_words.hpp"
#include "parallax/detail/transport/thread/group.hpp"

namespace parallax {

// Runs `body(ThreadCommunicator&)` on `size` threads, one per rank, and returns when all have ended. When a rank leaves by an
// exception, every other rank's pending or next operation throws an Error naming that rank, and the first one is rethrown here.
// Ranks as threads share everything of the process: of your libraries, too. All ranks draw from a framework's global generator
// of random numbers (torch::manual_seed) in no certain order, with the seed set last by any of them; they share its number of
// threads, its flags and caches, the locale and the working directory. Give each rank its own of all that it changes, such as a
// generator, or make ranks processes: run_mpi takes the same body.
template <class Body>
void run_threads(int size, Body&& body, ThreadOptions options = {});

// One rank's end of a group. Used by one thread at a time; move-only.
class ThreadCommunicator {
 public:
  // An exchange in flight; does not outlive the communicator.
  class Request;

  // Local. One end for each rank of the group; all ends keep the group alive. Error (invalid_argument) if the group has no such
  // rank.
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank);
  // Only while nothing is in flight: requests refer to the object of their origin.
  ThreadCommunicator(ThreadCommunicator&&) noexcept;
  // As the move: only while neither of the two has an operation in flight.
  ThreadCommunicator& operator=(ThreadCommunicator&&) noexcept;
  // Local: waits for nobody. Requests are gone before.
  ~ThreadCommunicator();

  // From 0 to size() - 1.
  int rank() const { return rank_; }
  // Threads of the group.
  int size() const { return group_->size(); }
  // As the options of the group have it, 60 s by default.
  std::chrono::nanoseconds deadline() const { return group_->options().deadline; }
  // True if the group has more ranks than this machine has hardware threads; waiting then yields at once.
  bool oversubscribed() const { return group_->oversubscribed_; }
  // Always: all ranks are of one process.
  bool shares_memory(int /*one*/, int /*other*/) const { return true; }
  // Always: an address means the same to every rank.
  bool reads_in_place() const { return true; }
  // As ReadsInPlace has them. Whoever begins to read and looks for an abort afterwards, is seen by whoever aborts and looks for
  // readers afterwards.
  void begin_reading();
  // Local.
  void end_reading() noexcept { reader(rank_).reads.store(false, std::memory_order_release); }
  // Yields as long as a rank reads, this one too.
  void await_readers() const noexcept;
  // A store.
  void take_turn() noexcept;
  // A load for each rank.
  int unread() const;
  // Local, as ThreadGroup::abort: every rank's next operation and every poll throw this reason, or an earlier one.
  void abort(Error const& reason) { group_->abort(rank_, reason, in_flight()); }
  // Throws the reason once any rank has aborted.
  void check() { group_->check(); }

  // Collective on a channel. Tells each receiver the place of its block; the receiver copies it while it polls. Copies at once
  // the rank's own block, and blocks of up to 64 bytes, which nobody need take for the request to be complete. Error:
  // invalid_argument for lists of another length than `size` and for channels out of range, misuse for a busy channel, mismatch
  // for sizes in disagreement, and the reason after an abort. A small block not expected by its receiver is a mismatch of the
  // receiver's next operation with a block from that rank.
  Request ialltoallv(int channel, Transfer const& transfer);

  // A letter is copied when it is posted; its memory is handed over when it is taken.
  // As ThreadOptions say: requests from one rank to another not yet taken.
  int window() const { return group_->letters_.bounds.window; }
  // Bytes of a letter, as ThreadOptions say.
  std::size_t largest() const { return group_->letters_.bounds.largest; }
  // Local, without a lock but for the group's first letter. The parts are copied; see Mailbox for refusals.
  bool post(LetterLane lane, int to, LetterParts parts);
  // Local, without a lock. Letters of any rank are looked for from the rank behind the last writer on.
  bool take(LetterLane lane, int from, Letter& letter);

  // This rank's, in the group: peers read it in place.
  Journal& journal() { return group_->journals_[static_cast<std::size_t>(rank_)]; }
  // Returns the present status in any rank's journal. `fresh` only for this rank: others are read, and need not be awake.
  std::optional<RankStatus> status_of(int rank, bool& fresh) const;
  void answer() const {}  // the journals lie open to all ranks
  // Nothing to do: peers read the pause in the journal.
  void announce() const {}
  // Looks into every other rank's journal: O(size).
  std::chrono::nanoseconds longest_pause() const;

  // All memory can be lent: a place is an address.
  bool lends(int /*one*/, int /*other*/) const { return true; }
  // The address itself, with no end: nobody keeps track of the process's allocations.
  Place place_of(void const* memory) const {
    return {1, reinterpret_cast<std::uintptr_t>(memory), std::numeric_limits<std::uint64_t>::max()};
  }
  // Null: no memory is out of reach, and nobody stages.
  std::byte* window(int /*channel*/, std::size_t /*bytes*/) const { return nullptr; }
  // The address given to `place_of`.
  std::byte* address_of(Place const& place) const { return reinterpret_cast<std::byte*>(place.offset); }
  // Opens a loan of the channel; numbers are this rank's own, from 1, and never come again.
  std::uint64_t lend(int channel);
  // A holder counts itself before it looks, and is seen by an owner closing before it looks.
  bool hold(int channel, int rank, std::uint64_t number);
  // Ends a successful `hold`.
  void release(int channel, int rank) noexcept { group_->loan(channel, rank).holders.fetch_sub(1); }
  // Closes the loan and yields until nobody holds it: as long as a peer takes to read its memory.
  void reclaim(int channel) noexcept;

 private:
  using Box = ThreadGroup::Box;
  using Mark = ThreadGroup::Mark;

  // The operation in flight on one channel. `number` counts this rank's operations on it from 1.
  struct Lane {
    Transfer transfer;
    std::uint64_t number = 0;
    bool busy = false;
    int missing = 0, unposted = 0;  // blocks not yet arrived; blocks without a free box so far
    // State of the blocks from and to a rank.
    struct Peer {
      // There is none to come, or it was taken.
      bool arrived;
      // It lies in its box, or has.
      bool posted;
    };
    List<Peer> peers;  // by rank
  };

  // Public state of a rank reading in place.
  ThreadGroup::Reader& reader(int rank) const { return group_->readers_[static_cast<std::size_t>(rank)]; }

  // Stamp of a box for an operation: later operations, and later marks of one, have larger stamps.
  static std::uint64_t stamp(std::uint64_t number, Mark mark) { return number * 4 + mark; }

  // Error (mismatch) with the sender's rank, for the receiver to throw.
  PARALLAX_COLD Error disagreement(int source, std::string const& what) const;

  // Fills the free boxes of the operation: all of them, unless a peer is two operations behind.
  void fill_boxes(int channel, Lane& lane);
  // Copies the block of `source` if it is there. A box that holds something else than this operation expects is a mismatch.
  void receive(int channel, Lane& lane, int source);
  // True if a box of this stamp has a block of an earlier operation, not expected there.
  static bool left_behind(std::uint64_t stamp, Lane const& lane) {
    return stamp % 4 == Mark::posted && stamp / 4 < lane.number;
  }
  // Throws if a box has an older block, or the sender is further on and has left this operation's out.
  void check_box(int channel, Lane const& lane, int source);
  // Marks the box as being read, then as taken. False if the block was withdrawn.
  bool copy(int channel, Lane& lane, int source);

  // Posts the blocks not yet posted. Takes the arrived ones, from the rank behind this one on: not all ranks read from rank 0
  // first.
  void receive(int channel, Lane& lane);

  // Moves on the channel's operation, and while it is incomplete those on other channels too: a peer may be waiting for one of
  // them. After an abort it goes on as long as `hopes`.
  bool progress(int channel);
  // Returns true if, after an abort, an operation in flight may be completed all the same: the ranks gone had completed it, or
  // are not needed.
  PARALLAX_COLD bool hopes();
  // Returns a bit for each channel with an operation in flight, and one for turns awaited.
  PARALLAX_COLD std::uint64_t in_flight() const;

  // True if the operation has a block for that rank, announced by a box.
  bool sends_to(Lane const& lane, int target) const {
    return target != rank_ && lane.transfer.to[static_cast<std::size_t>(target)].bytes > 0;
  }
  // True if that rank has yet to take its block; the block must stay until then.
  bool untaken(int channel, Lane const& lane, int target) const {
    if (!sends_to(lane, target)) return false;
    bool const inside = lane.transfer.to[static_cast<std::size_t>(target)].bytes <= sizeof(Box::inside);
    if (inside) return !lane.peers[static_cast<std::size_t>(target)].posted;
    return group_->box(channel, rank_, target, lane.number).stamp.load(std::memory_order_acquire) !=
           stamp(lane.number, Mark::taken);
  }
  // Returns a rank still to deliver, else one still to take its own block, or -1.
  int waiting_for(int channel) const;

  // Takes back all blocks that no peer has begun to read, and waits for the others.
  void withdraw(int channel);

  // By channel; this end moves, the lanes do not.
  std::unique_ptr<std::array<Lane, channels>> lanes_;
  std::shared_ptr<ThreadGroup> group_;
  int rank_, in_flight_ = 0;
  mutable bool awaits_turns_ = false;
  std::uint64_t loans_ = 0;     // ever made by this rank
  std::array<int, 2> turns_{};  // by lane: the rank looked at first for a letter
};

// A move-only token on an exchange. Refers to the communicator, which must neither move nor go earlier. Destroyed before `test`
// was true, it withdraws: takes back the blocks no peer has begun to read, and waits for the rest.
class ThreadCommunicator::Request {
 public:
  Request() = default;
  // `other` is complete afterwards, and withdraws nothing.
  Request(Request&& other) noexcept : comm_{std::exchange(other.comm_, nullptr)}, channel_{other.channel_} {}
  // Withdraws its former operation, unless complete.
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      drop();
      comm_ = std::exchange(other.comm_, nullptr);
      channel_ = other.channel_;
    }
    return *this;
  }
  ~Request() { drop(); }

  // Copies arrived blocks, on all channels; true once all have arrived, and peers have taken this rank's. Throws the reason of
  // an abort, and Error (mismatch).
  bool test() {
    if (comm_ && comm_->progress(channel_)) comm_ = nullptr;
    return !comm_;
  }
  // Returns a rank still to deliver, else one still to take; -1 once complete.
  int waiting_for() const { return comm_ ? comm_->waiting_for(channel_) : -1; }

 private:
  friend class ThreadCommunicator;
  Request(ThreadCommunicator* comm, int channel) : comm_{comm}, channel_{channel} {}
  // Withdraws the operation unless complete.
  void drop() noexcept {
    if (comm_) comm_->withdraw(channel_);
    comm_ = nullptr;
  }

  ThreadCommunicator* comm_ = nullptr;
  int channel_ = 0;
};

static_assert(AnnouncesPauses<ThreadCommunicator> && LendsMemory<ThreadCommunicator> && ReadsInPlace<ThreadCommunicator> &&
              TellsOfAborts<ThreadCommunicator> && Mailbox<ThreadCommunicator>);

template <class Body>
void run_threads(int size, Body&& body, ThreadOptions options) {
  auto const call = [&](ThreadCommunicator& world) { body(world); };
  detail::run_thread_ranks(size, call, options);
}

#if PARALLAX_THREAD_BODIES
PARALLAX_INLINE ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
    : lanes_{std::make_unique<std::array<Lane, channels>>()}, group_{std::move(group)}, rank_{rank} {
  if (rank < 0 || rank >= group_->size())
    throw Error{Errc::invalid_argument, rank, "ThreadCommunicator", "",
                "the group has " + std::to_string(group_->size()) + " ranks"};
  for (Lane& lane : *lanes_) lane.peers.resize(static_cast<std::size_t>(group_->size()));
}
PARALLAX_INLINE ThreadCommunicator::ThreadCommunicator(ThreadCommunicator&&) noexcept = default;
PARALLAX_INLINE ThreadCommunicator& ThreadCommunicator::operator=(ThreadCommunicator&&) noexcept = default;
PARALLAX_INLINE ThreadCommunicator::~ThreadCommunicator() = default;

PARALLAX_INLINE bool ThreadCommunicator::post(LetterLane lane, int to, LetterParts parts) {
  group_->check();
  detail::check_letter(rank_, size(), to, parts, largest());
  return group_->letters_.post(lane, rank_, to, parts);
}

PARALLAX_INLINE bool ThreadCommunicator::take(LetterLane lane, int from, Letter& letter) {
  group_->check();
  detail::check_writer(rank_, size(), from);
  return group_->letters_.take(lane, from, rank_, turns_[static_cast<std::size_t>(lane)], letter);
}

PARALLAX_INLINE std::optional<RankStatus> ThreadCommunicator::status_of(int rank, bool& fresh) const {
  fresh = rank == rank_;
  return group_->journals_[static_cast<std::size_t>(rank)].status();
}

PARALLAX_INLINE std::chrono::nanoseconds ThreadCommunicator::longest_pause() const {
  std::int64_t longest = 0;
  for (int other = 0; other < size(); ++other)
    if (other != rank_) longest = std::max(longest, group_->journals_[static_cast<std::size_t>(other)].status().pause);
  return std::chrono::nanoseconds{longest};
}

PARALLAX_INLINE std::uint64_t ThreadCommunicator::lend(int channel) {
  group_->loan(channel, rank_).open.store(++loans_);
  return loans_;
}

PARALLAX_INLINE bool ThreadCommunicator::hold(int channel, int rank, std::uint64_t number) {
  auto& loan = group_->loan(channel, rank);
  loan.holders.fetch_add(1);
  if (loan.open.load() == number) return true;
  release(channel, rank);
  return false;
}

PARALLAX_INLINE void ThreadCommunicator::reclaim(int channel) noexcept {
  auto& loan = group_->loan(channel, rank_);
  loan.open.store(0);
  while (loan.holders.load() > 0 && !group_->birth_.in_child()) detail::rest();
}

PARALLAX_INLINE void ThreadCommunicator::begin_reading() {
  reader(rank_).reads.store(true);
  if (!group_->left_.load()) return;
  end_reading();
  group_->refuse_soon();
}

PARALLAX_INLINE void ThreadCommunicator::await_readers() const noexcept {
  for (int rank = 0; rank < size() && !group_->birth_.in_child(); ++rank)
    while (reader(rank).reads.load()) detail::rest();
}

PARALLAX_INLINE void ThreadCommunicator::take_turn() noexcept {
  auto& turns = reader(rank_).turns;
  turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

PARALLAX_INLINE int ThreadCommunicator::unread() const {
  std::uint64_t const own = reader(rank_).turns.load(std::memory_order_relaxed);
  auto const is_behind = [&](int rank) { return reader(rank).turns.load(std::memory_order_acquire) < own; };
  int behind = -1;
  for (int k = 1; k < size() && behind < 0; ++k)
    if (int const rank = (rank_ + k) % size(); is_behind(rank)) behind = rank;
  awaits_turns_ = behind >= 0;
  if (!group_->aborted()) return behind;
  bool const in_vain = behind >= 0 && (!group_->lingers() || (group_->gone(behind) && is_behind(behind)));
  if (in_vain || group_->given_up(ThreadGroup::turns)) group_->refuse();
  return behind;
}

PARALLAX_INLINE Error ThreadCommunicator::disagreement(int source, std::string const& what) const {
  return {Errc::mismatch, source, "ialltoallv", "",
          "rank " + std::to_string(source) + " " + what + " rank " + std::to_string(rank_)};
}

PARALLAX_INLINE void ThreadCommunicator::fill_boxes(int channel, Lane& lane) {
  for (int target = 0; target < size() && lane.unposted > 0; ++target) {
    Box& box = group_->box(channel, rank_, target, lane.number);
    bool& posted = lane.peers[static_cast<std::size_t>(target)].posted;
    if (posted || !sends_to(lane, target) || !box.free()) continue;
    ByteRange const& block = lane.transfer.to[static_cast<std::size_t>(target)];
    box.data = lane.transfer.send + block.offset;
    box.bytes = block.bytes;
    if (block.bytes <= sizeof box.inside) box.data = static_cast<std::byte*>(std::memcpy(box.inside, box.data, block.bytes));
    box.stamp.store(stamp(lane.number, Mark::posted), std::memory_order_release);
    posted = true;
    --lane.unposted;
  }
}

PARALLAX_INLINE void ThreadCommunicator::receive(int channel, Lane& lane, int source) {
  Box& box = group_->box(channel, source, rank_, lane.number);
  bool const here = box.stamp.load(std::memory_order_acquire) == stamp(lane.number, Mark::posted);
  std::uint64_t const other = group_->box(channel, source, rank_, lane.number + 1).stamp.load(std::memory_order_relaxed);
  if (!here || left_behind(other, lane)) return check_box(channel, lane, source);
  if (!copy(channel, lane, source)) return;
  lane.peers[static_cast<std::size_t>(source)].arrived = true;
  --lane.missing;
}

PARALLAX_INLINE void ThreadCommunicator::check_box(int channel, Lane const& lane, int source) {
  auto const seen = [&](std::uint64_t number) {
    return group_->box(channel, source, rank_, number).stamp.load(std::memory_order_acquire);
  };
  // The other box first: whoever is further on has posted this operation's block before, if there is one.
  std::uint64_t const other = seen(lane.number + 1), own = seen(lane.number);
  if (left_behind(own, lane) || left_behind(other, lane))
    throw disagreement(source, "has sent bytes before that were not expected by");
  if (own / 4 != lane.number && std::max(own, other) / 4 > lane.number)
    throw disagreement(source, "sent nothing in this operation to");
}

PARALLAX_INLINE bool ThreadCommunicator::copy(int channel, Lane& lane, int source) {
  Box& box = group_->box(channel, source, rank_, lane.number);
  ByteRange const expected = lane.transfer.from[static_cast<std::size_t>(source)];
  std::uint64_t seen = stamp(lane.number, Mark::posted);
  if (!box.stamp.compare_exchange_strong(seen, stamp(lane.number, Mark::reading), std::memory_order_acquire)) return false;
  std::size_t const bytes = box.bytes;
  if (bytes == expected.bytes) std::memcpy(lane.transfer.receive + expected.offset, box.data, bytes);
  box.stamp.store(stamp(lane.number, Mark::taken), std::memory_order_release);
  if (bytes == expected.bytes) return true;
  throw disagreement(source,
                     "sent " + std::to_string(bytes) + " bytes where " + std::to_string(expected.bytes) + " were expected by");
}

PARALLAX_INLINE void ThreadCommunicator::receive(int channel, Lane& lane) {
  if (lane.unposted > 0) fill_boxes(channel, lane);
  for (int k = 1; k < size() && lane.missing > 0; ++k) {
    int const source = (rank_ + k) % size();
    if (!lane.peers[static_cast<std::size_t>(source)].arrived) receive(channel, lane, source);
  }
}

PARALLAX_INLINE bool ThreadCommunicator::progress(int channel) {
  Lane& lane = (*lanes_)[static_cast<std::size_t>(channel)];
  if (!lane.busy) return true;
  receive(channel, lane);
  bool complete = lane.missing == 0;
  for (int target = 0; target < size() && complete; ++target) complete = !untaken(channel, lane, target);
  bool const aborted = group_->aborted();
  if (complete && !(aborted && group_->given_up(channel))) {
    lane.busy = false;
    --in_flight_;
    return true;
  }
  for (int other = 0; other < channels && in_flight_ > 1; ++other)
    if (Lane& lagging = (*lanes_)[static_cast<std::size_t>(other)]; lagging.busy) receive(other, lagging);
  if (aborted && !hopes()) group_->refuse();
  return false;
}

// Looks once more for the blocks of a rank gone: all of them are there.
PARALLAX_INLINE bool ThreadCommunicator::hopes() {
  auto const needs = [&](int channel, Lane& lane, int rank) {
    receive(channel, lane);
    return !lane.peers[static_cast<std::size_t>(rank)].arrived || untaken(channel, lane, rank);
  };
  auto const may_be_completed = [&](int channel) {
    Lane& lane = (*lanes_)[static_cast<std::size_t>(channel)];
    for (int rank = 0; rank < size() && lane.busy; ++rank)
      if (group_->gone(rank) && needs(channel, lane, rank)) return false;
    return lane.busy && !group_->given_up(channel);
  };
  if (group_->gone(rank_) || !group_->lingers()) return false;
  int channel = 0;
  while (channel < channels && !may_be_completed(channel)) ++channel;
  return channel < channels;
}

PARALLAX_INLINE std::uint64_t ThreadCommunicator::in_flight() const {
  std::uint64_t bits = std::uint64_t{awaits_turns_} << ThreadGroup::turns;
  for (std::size_t channel = 0; channel < channels; ++channel) bits |= std::uint64_t{(*lanes_)[channel].busy} << channel;
  return bits;
}

PARALLAX_INLINE int ThreadCommunicator::waiting_for(int channel) const {
  Lane const& lane = (*lanes_)[static_cast<std::size_t>(channel)];
  if (!lane.busy) return -1;
  for (int k = 1; k < size(); ++k)
    if (int const rank = (rank_ + k) % size(); !lane.peers[static_cast<std::size_t>(rank)].arrived) return rank;
  for (int k = 1; k < size(); ++k)
    if (int const rank = (rank_ + k) % size(); untaken(channel, lane, rank)) return rank;
  return -1;
}

PARALLAX_INLINE void ThreadCommunicator::withdraw(int channel) {
  Lane& lane = (*lanes_)[static_cast<std::size_t>(channel)];
  if (!lane.busy || group_->birth_.in_child()) return;
  for (int target = 0; target < size(); ++target) {
    if (!lane.peers[static_cast<std::size_t>(target)].posted) continue;
    Box& box = group_->box(channel, rank_, target, lane.number);
    std::uint64_t expected = stamp(lane.number, Mark::posted);
    if (box.stamp.compare_exchange_strong(expected, stamp(lane.number, Mark::taken), std::memory_order_acq_rel)) continue;
    while (box.stamp.load(std::memory_order_acquire) != stamp(lane.number, Mark::taken)) detail::rest();
  }
  lane.busy = false;
  --in_flight_;
}

PARALLAX_INLINE ThreadCommunicator::Request ThreadCommunicator::ialltoallv(int channel, Transfer const& transfer) {
  group_->birth_.check(rank_, "ialltoallv");
  if (in_flight_ == 0) group_->check();
  check_channel(rank_, "ialltoallv", channel);
  check_lists(rank_, size(), "ialltoallv", transfer);
  Lane& lane = (*lanes_)[static_cast<std::size_t>(channel)];
  if (lane.busy) throw busy_channel(rank_, "ialltoallv", channel);
  ByteRange const out = transfer.to[static_cast<std::size_t>(rank_)], in = transfer.from[static_cast<std::size_t>(rank_)];
  if (out.bytes != in.bytes) throw disagreement(rank_, "sends to itself another size than it expects:");
  lane.transfer = transfer;
  lane.number += 1;
  lane.busy = true;
  ++in_flight_;
  lane.missing = lane.unposted = 0;
  for (int other = 0; other < size(); ++other) {
    auto const place = static_cast<std::size_t>(other);
    bool const expected = other != rank_ && transfer.from[place].bytes > 0;
    lane.peers[place] = {!expected, false};
    lane.missing += expected;
    lane.unposted += sends_to(lane, other);
  }
  if (out.bytes) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
  fill_boxes(channel, lane);
  return {this, channel};
}

PARALLAX_INLINE void detail::run_thread_ranks(int size, FunctionRef<void(ThreadCommunicator&)> body,
                                              ThreadOptions const& options) {
  auto const group = std::make_shared<ThreadGroup>(size, options);
  group->supervise();
  std::mutex mutex;
  std::exception_ptr first;
  auto const rank_main = [&](int rank) {
    try {
      ThreadCommunicator comm{group, rank};
      body(comm);
      group->leave(rank, 0);
      group->publish_held_back();
    } catch (...) {
      end_child(group->birth_, rank);
      {
        std::lock_guard const lock{mutex};
        if (!first) first = std::current_exception();
      }
      group->abort(rank, current_error(rank, "the training of a rank"), ThreadGroup::everything);
    }
  };
  {
    List<OwnThread> ranks;
    int rank = 1;
    try {
      for (; rank < size; ++rank) ranks.emplace_back(rank_main, rank);
    } catch (Error const& error) {  // ranks already there wait for it
      Error const why{error.code(), rank, "run_threads", "", error.detail()};
      std::lock_guard const lock{mutex};
      first = std::make_exception_ptr(why);
      group->abort(why);
    }
    if (rank == size) rank_main(0);
  }
  if (first) std::rethrow_exception(first);
}
#endif

}  // namespace parallax
