// N ranks as threads of one process: the communicator of a single machine, and the test bed of everything else.
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
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/comm/thread/letters.hpp"
#include "parallax/core/algorithm.hpp"

namespace parallax {

struct ThreadOptions {
  std::chrono::nanoseconds deadline = std::chrono::seconds{60};
  MailboxBounds mailbox = {};
};

// Runs `body(ThreadCommunicator&)` on `size` threads, one per rank, and returns when all have ended. When a rank leaves by an
// exception, every other rank's pending or next operation throws an Error that names it, and the first one is rethrown here.
// Ranks that are threads share all that belongs to the process: of your libraries, too. A generator of random numbers that a
// framework keeps for everybody (torch::manual_seed) is drawn from by all ranks in no certain order, and its seed is that of
// whoever set it last; so are its number of threads, its flags and caches, the locale and the working directory. Give each rank
// what it changes, a generator of its own for one, or make ranks processes: run_mpi takes the same body.
template <class Body>
void run_threads(int size, Body&& body, ThreadOptions options = {});

// What the ranks of one group share. A rank posts where its bytes lie, the receiver copies them and marks the box as taken:
// one copy, no lock. Every (channel, sender, receiver) has one box; its stamp is 4 x the sender's operation number + a mark.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size, ThreadOptions options = {})
      : size_{size},
        options_{options},
        boxes_(boxes_of(size)),
        loans_(static_cast<std::size_t>(2 * channels * std::max(size, 0))),
        journals_(static_cast<std::size_t>(std::max(size, 0))),
        letters_{size, options.mailbox} {
    if (size < 1) throw Error{Errc::invalid_argument, -1, "ThreadGroup", "", "size is " + std::to_string(size)};
    detail::check_bounds(options.mailbox, std::numeric_limits<std::size_t>::max(), "ThreadGroup");
  }

  int size() const { return size_; }
  ThreadOptions const& options() const { return options_; }

  // The first reason wins; every rank's next `check` throws it. Where `run_threads` supervises, a bare «left by an
  // exception» is held back: the supervisor catches that very exception a moment later and knows what it says.
  void abort(Error const& reason) {
    std::lock_guard const lock{mutex_};
    if (supervised_ && reason.code() == Errc::aborted) {
      if (!held_back_) held_back_ = reason;
      return;
    }
    publish(reason);
  }
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  void check() {
    if (!aborted()) return;
    std::lock_guard const lock{mutex_};
    throw *reason_;
  }

 private:
  friend class ThreadCommunicator;
  template <class Body>
  friend void run_threads(int size, Body&& body, ThreadOptions options);

  enum Mark : std::uint64_t { posted = 1, reading = 2, taken = 3 };
  struct alignas(64) Box {
    std::atomic<std::uint64_t> stamp{0};
    std::byte const* data = nullptr;
    std::size_t bytes = 0;
  };

  // What a rank lends on a channel: the number of the loan that is open, or 0, and how many peers hold it.
  struct alignas(64) Loan {
    std::atomic<std::uint64_t> open{0}, holders{0};
  };

  Loan& loan(int channel, int rank) { return loans_[static_cast<std::size_t>(channel * size_ + rank)]; }

  static std::size_t boxes_of(int size) {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  }
  Box& box(int channel, int source, int target) {
    return boxes_[static_cast<std::size_t>((channel * size_ + source) * size_ + target)];
  }

  void publish(Error const& reason) {
    if (!reason_) reason_ = reason;
    aborted_.store(true, std::memory_order_release);
  }
  void supervise() { supervised_ = true; }
  void publish_held_back() {
    std::lock_guard const lock{mutex_};
    if (held_back_) publish(*held_back_);
  }

  int const size_;
  ThreadOptions const options_;
  bool const oversubscribed_ = static_cast<unsigned>(size_) > std::thread::hardware_concurrency();  // asked once: slow
  std::vector<Box> boxes_;
  std::vector<Loan> loans_;  // by channel, then rank; behind them those of operations on device memory, as channels further on
  std::vector<Journal> journals_;
  detail::ThreadLetters letters_;
  std::atomic<bool> aborted_{false};
  bool supervised_ = false;
  std::mutex mutex_;
  std::optional<Error> reason_, held_back_;
};

// One rank's end of a group. Used by one thread at a time; move-only.
class ThreadCommunicator {
 public:
  class Request;

  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : lanes_{std::make_unique<std::array<Lane, channels>>()}, group_{std::move(group)}, rank_{rank} {
    if (rank < 0 || rank >= group_->size())
      throw Error{Errc::invalid_argument, rank, "ThreadCommunicator", "",
                  "the group has " + std::to_string(group_->size()) + " ranks"};
    for (Lane& lane : *lanes_) lane.arrived.resize(static_cast<std::size_t>(group_->size()));
  }

  int rank() const { return rank_; }
  int size() const { return group_->size(); }
  std::chrono::nanoseconds deadline() const { return group_->options().deadline; }
  bool oversubscribed() const { return group_->oversubscribed_; }
  bool shares_memory(int /*one*/, int /*other*/) const { return true; }
  bool reads_in_place() const { return true; }
  void abort(Error const& reason) { group_->abort(reason); }
  void check() { group_->check(); }

  Request ialltoallv(int channel, Transfer const& transfer);

  // A letter is copied when it is posted; its memory is handed over when it is taken.
  int window() const { return group_->letters_.bounds.window; }
  std::size_t largest() const { return group_->letters_.bounds.largest; }
  bool post(LetterLane lane, int to, LetterParts parts) {
    group_->check();
    detail::check_letter(rank_, size(), to, parts, largest());
    return group_->letters_.post(lane, rank_, to, parts);
  }
  bool take(LetterLane lane, int from, Letter& letter) {
    group_->check();
    detail::check_writer(rank_, size(), from);
    return group_->letters_.take(lane, from, rank_, turns_[static_cast<std::size_t>(lane)], letter);
  }

  Journal& journal() { return group_->journals_[static_cast<std::size_t>(rank_)]; }
  std::optional<Status> status_of(int rank, bool& fresh) const {
    fresh = rank == rank_;
    return group_->journals_[static_cast<std::size_t>(rank)].status();
  }
  void answer() const {}  // the journals lie open to all ranks
  void announce() const {}
  std::chrono::nanoseconds longest_pause() const {
    std::int64_t longest = 0;
    for (int other = 0; other < size(); ++other)
      if (other != rank_) longest = std::max(longest, group_->journals_[static_cast<std::size_t>(other)].status().pause);
    return std::chrono::nanoseconds{longest};
  }

  // All memory can be lent: a place is an address.
  bool lends(int /*one*/, int /*other*/) const { return true; }
  Place place_of(void const* memory) const {
    return {1, reinterpret_cast<std::uintptr_t>(memory), std::numeric_limits<std::uint64_t>::max()};
  }
  std::byte* window(int /*channel*/, std::size_t /*bytes*/) const { return nullptr; }
  std::byte* address_of(Place const& place) const { return reinterpret_cast<std::byte*>(place.offset); }
  std::uint64_t lend(int channel) {
    group_->loan(channel, rank_).open.store(++loans_);
    return loans_;
  }
  // Who counts itself as a holder before it looks, is seen by an owner who closes before it looks.
  bool hold(int channel, int rank, std::uint64_t number) {
    auto& loan = group_->loan(channel, rank);
    loan.holders.fetch_add(1);
    if (loan.open.load() == number) return true;
    release(channel, rank);
    return false;
  }
  void release(int channel, int rank) noexcept { group_->loan(channel, rank).holders.fetch_sub(1); }
  void reclaim(int channel) noexcept {
    auto& loan = group_->loan(channel, rank_);
    loan.open.store(0);
    while (loan.holders.load() > 0) std::this_thread::yield();
  }

 private:
  using Box = ThreadGroup::Box;
  using Mark = ThreadGroup::Mark;

  // The operation in flight on one channel. `number` counts this rank's operations on it from 1.
  struct Lane {
    Transfer transfer;
    std::uint64_t number = 0;
    bool busy = false;
    int missing = 0;            // blocks that have not arrived
    std::vector<char> arrived;  // by source
  };

  static std::uint64_t stamp(std::uint64_t number, Mark mark) { return number * 4 + mark; }

  Error disagreement(int source, std::string const& what) const {
    return {Errc::mismatch, source, "ialltoallv", "",
            "rank " + std::to_string(source) + " " + what + " rank " + std::to_string(rank_)};
  }

  // Copies the block of `source` if it is there. A box that holds something else than this operation expects is a mismatch.
  // Where blocks are read in place, all are copied together, once the last is there.
  void receive(int channel, Lane& lane, int source) {
    std::uint64_t const seen = group_->box(channel, source, rank_).stamp.load(std::memory_order_acquire);
    if (seen < stamp(lane.number, Mark::posted)) return;
    if (seen >= stamp(lane.number + 1, Mark::posted)) throw disagreement(source, "sent nothing in this operation to");
    if (!lane.transfer.arrival) {
      Holding const holding{*this, channel, lane, source, source + 1};
      if (!copy(channel, lane, source)) return;
    }
    lane.arrived[static_cast<std::size_t>(source)] = 1;
    --lane.missing;
  }
  // False where the block was withdrawn.
  bool copy(int channel, Lane& lane, int source) {
    Box& box = group_->box(channel, source, rank_);
    ByteRange const expected = lane.transfer.from[static_cast<std::size_t>(source)];
    std::uint64_t seen = stamp(lane.number, Mark::posted);
    if (!box.stamp.compare_exchange_strong(seen, stamp(lane.number, Mark::reading), std::memory_order_acquire)) return false;
    if (box.bytes != expected.bytes)
      throw disagreement(
          source, "sent " + std::to_string(box.bytes) + " bytes where " + std::to_string(expected.bytes) + " were expected by");
    std::memcpy(lane.transfer.receive + expected.offset, box.data, box.bytes);
    return true;
  }
  // At its end the blocks of these sources that are being read have been.
  struct Holding {
    ThreadCommunicator& world;
    int channel;
    Lane const& lane;
    int first, last;
    ~Holding() {
      for (int source = first; source < last; ++source) {
        Box& box = world.group_->box(channel, source, world.rank_);
        if (box.stamp.load(std::memory_order_relaxed) == stamp(lane.number, Mark::reading))
          box.stamp.store(stamp(lane.number, Mark::taken), std::memory_order_release);
      }
    }
  };
  void tell_arrival(int channel, Lane& lane) {
    Holding const holding{*this, channel, lane, 0, size()};
    for (int source = 0; source < size(); ++source) {
      bool const expected = source != rank_ && lane.transfer.from[static_cast<std::size_t>(source)].bytes > 0;
      if (expected && !copy(channel, lane, source)) return;
    }
    std::exchange(lane.transfer.arrival, nullptr)->arrived();
  }

  void receive(int channel, Lane& lane) {
    for (int k = 1; k < size() && lane.missing > 0; ++k) {
      int const source = (rank_ + k) % size();
      if (!lane.arrived[static_cast<std::size_t>(source)]) receive(channel, lane, source);
    }
  }

  // While the operation is incomplete, those on other channels are moved on too: a peer may be waiting for one of them.
  bool progress(int channel) {
    Lane& lane = (*lanes_)[static_cast<std::size_t>(channel)];
    if (!lane.busy) return true;
    group_->check();
    receive(channel, lane);
    if (lane.missing == 0 && lane.transfer.arrival) tell_arrival(channel, lane);
    bool complete = lane.missing == 0 && !lane.transfer.arrival;
    for (int target = 0; target < size() && complete; ++target) complete = !unread(channel, lane, target);
    if (complete) {
      lane.busy = false;
      --in_flight_;
      return true;
    }
    for (int other = 0; other < channels && in_flight_ > 1; ++other)
      if (Lane& lagging = (*lanes_)[static_cast<std::size_t>(other)]; lagging.busy) receive(other, lagging);
    return false;
  }

  bool sends_to(Lane const& lane, int target) const {
    return target != rank_ && lane.transfer.to[static_cast<std::size_t>(target)].bytes > 0;
  }
  bool unread(int channel, Lane const& lane, int target) const {
    return sends_to(lane, target) &&
           group_->box(channel, rank_, target).stamp.load(std::memory_order_acquire) != stamp(lane.number, Mark::taken);
  }
  int waiting_for(int channel) const {
    Lane const& lane = (*lanes_)[static_cast<std::size_t>(channel)];
    if (!lane.busy) return -1;
    for (int k = 1; k < size(); ++k)
      if (int const rank = (rank_ + k) % size(); !lane.arrived[static_cast<std::size_t>(rank)]) return rank;
    for (int k = 1; k < size(); ++k)
      if (int const rank = (rank_ + k) % size(); unread(channel, lane, rank)) return rank;
    return -1;
  }

  // Takes back what no peer has begun to read, and waits for those that have.
  void withdraw(int channel) {
    Lane& lane = (*lanes_)[static_cast<std::size_t>(channel)];
    if (!lane.busy) return;
    for (int target = 0; target < size(); ++target) {
      if (!sends_to(lane, target)) continue;
      Box& box = group_->box(channel, rank_, target);
      std::uint64_t expected = stamp(lane.number, Mark::posted);
      if (box.stamp.compare_exchange_strong(expected, stamp(lane.number, Mark::taken), std::memory_order_acq_rel)) continue;
      while (box.stamp.load(std::memory_order_acquire) != stamp(lane.number, Mark::taken)) std::this_thread::yield();
    }
    lane.busy = false;
    --in_flight_;
  }

  std::unique_ptr<std::array<Lane, channels>> lanes_;
  std::shared_ptr<ThreadGroup> group_;
  int rank_, in_flight_ = 0;
  std::uint64_t loans_ = 0;     // ever made by this rank
  std::array<int, 2> turns_{};  // by lane: the rank whose letter is looked for first
};

class ThreadCommunicator::Request {
 public:
  Request() = default;
  Request(Request&& other) noexcept : comm_{std::exchange(other.comm_, nullptr)}, channel_{other.channel_} {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      drop();
      comm_ = std::exchange(other.comm_, nullptr);
      channel_ = other.channel_;
    }
    return *this;
  }
  ~Request() { drop(); }

  bool test() {
    if (comm_ && comm_->progress(channel_)) comm_ = nullptr;
    return !comm_;
  }
  int waiting_for() const { return comm_ ? comm_->waiting_for(channel_) : -1; }

 private:
  friend class ThreadCommunicator;
  Request(ThreadCommunicator* comm, int channel) : comm_{comm}, channel_{channel} {}
  void drop() noexcept {
    if (comm_) comm_->withdraw(channel_);
    comm_ = nullptr;
  }

  ThreadCommunicator* comm_ = nullptr;
  int channel_ = 0;
};

inline ThreadCommunicator::Request ThreadCommunicator::ialltoallv(int channel, Transfer const& transfer) {
  group_->check();
  Lane& lane = (*lanes_)[static_cast<std::size_t>(channel)];
  if (lane.busy) throw busy_channel(rank_, "ialltoallv", channel);
  ByteRange const out = transfer.to[static_cast<std::size_t>(rank_)], in = transfer.from[static_cast<std::size_t>(rank_)];
  if (out.bytes != in.bytes) throw disagreement(rank_, "sends to itself another size than it expects:");
  lane.transfer = transfer;
  lane.number += 1;
  lane.busy = true;
  ++in_flight_;
  lane.missing = 0;
  for (int source = 0; source < size(); ++source) {
    bool const expected = source != rank_ && transfer.from[static_cast<std::size_t>(source)].bytes > 0;
    lane.arrived[static_cast<std::size_t>(source)] = !expected;
    lane.missing += expected;
  }
  if (out.bytes) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
  for (int target = 0; target < size(); ++target) {
    if (!sends_to(lane, target)) continue;
    ByteRange const& block = transfer.to[static_cast<std::size_t>(target)];
    Box& box = group_->box(channel, rank_, target);
    box.data = transfer.send + block.offset;
    box.bytes = block.bytes;
    box.stamp.store(stamp(lane.number, Mark::posted), std::memory_order_release);
  }
  return {this, channel};
}

static_assert(AnnouncesPauses<ThreadCommunicator> && LendsMemory<ThreadCommunicator> && ReadsInPlace<ThreadCommunicator> &&
              TellsOfAborts<ThreadCommunicator> && Mailbox<ThreadCommunicator>);

template <class Body>
void run_threads(int size, Body&& body, ThreadOptions options) {
  auto const group = std::make_shared<ThreadGroup>(size, options);
  group->supervise();
  std::mutex mutex;
  std::exception_ptr first;
  auto const rank_main = [&](int rank) {
    try {
      ThreadCommunicator comm{group, rank};
      body(comm);
      group->publish_held_back();
    } catch (...) {
      {
        std::lock_guard const lock{mutex};
        if (!first) first = std::current_exception();
      }
      group->abort(current_error(rank, "the training of a rank"));
    }
  };
  {
    std::vector<std::jthread> ranks;
    for (int rank = 1; rank < size; ++rank) ranks.emplace_back(rank_main, rank);
    rank_main(0);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace parallax
