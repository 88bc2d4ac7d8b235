// N ranks as threads of one process: the communicator of a single machine (`run_threads` for trainers), and the test bed of
// everything else.
#pragma once

#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/own_thread.hpp"
#include "parallax/detail/launch/last_words.hpp"
#include "parallax/detail/transport/thread/group.hpp"

namespace parallax::inline v0_2 {

// Runs `body(ThreadCommunicator&)` on `size` threads, one per rank, and returns when all have ended. When a rank leaves by an
// exception, every other rank's pending or next operation throws an Error naming that rank, and the first one is rethrown here.
// Throws Error: invalid_argument for a size or a mailbox's window below 1, out_of_memory if a thread cannot be made. Ranks as
// threads share everything of the process: of your libraries, too. All ranks draw from a framework's global generator of random
// numbers (torch::manual_seed) in no certain order, with the seed set last by any of them; they share its number of threads,
// its flags and caches, the locale and the working directory. Give each rank its own of all that it changes, such as a
// generator, or make ranks processes: run_mpi takes the same body.
template <class Body>
void run_threads(int size, Body&& body, ThreadOptions options = {});

// One rank's end of a group, which lives as long as any end. Used by one thread at a time; move-only.
class ThreadCommunicator {
 public:
  // A move-only token on an exchange. Refers to the communicator, which must neither move nor go earlier. Destroyed before
  // `test` was true, it withdraws: takes back the blocks no peer has begun to read, and waits for the rest. `test` copies
  // arrived blocks, on all channels, and is true once all have arrived, and peers have taken this rank's; it throws the reason
  // of an abort, and Error (mismatch). `waiting_for` returns a rank still to deliver, else one still to take.
  using Request = detail::InFlight<ThreadCommunicator>;

  // Local. Makes the end of rank `rank`, one for each rank; all ends keep the group alive. Throws Error (invalid_argument) if
  // the group has no such rank.
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank);
  // Takes the end over, only while nothing is in flight: requests refer to the object of their origin.
  ThreadCommunicator(ThreadCommunicator&&) noexcept;
  // Takes the end over, only while neither of the two has an operation in flight.
  ThreadCommunicator& operator=(ThreadCommunicator&&) noexcept;
  // Local: waits for nobody. Requests are gone before.
  ~ThreadCommunicator();

  // Returns this rank's number, from 0 to size() - 1.
  int rank() const { return rank_; }
  // Returns the number of ranks of the group.
  int size() const { return group_->size(); }
  // Returns the longest wait, as the options of the group have it: 60 s by default.
  std::chrono::nanoseconds deadline() const { return group_->options().deadline; }
  // Returns true if the group has more ranks than this machine has hardware threads; waiting then yields at once.
  bool oversubscribed() const { return group_->oversubscribed_; }
  // Returns true: all ranks are of one process.
  bool shares_memory(int /*one*/, int /*other*/) const { return true; }
  // Returns true: an address means the same to every rank.
  bool reads_in_place() const { return true; }
  // Begins to read, as ReadsInPlace has it; throws the reason of an abort. Whoever begins to read and looks for an abort
  // afterwards, is seen by whoever aborts and looks for readers afterwards.
  void begin_reading();
  // Local. Ends what `begin_reading` began.
  void end_reading() noexcept { reader(rank_).reads.store(false, std::memory_order_release); }
  // Waits as long as a rank reads, this one too.
  void await_readers() const noexcept;
  // Local. Takes a turn, as ReadsInPlace has it: by a store, without waiting.
  void take_turn() noexcept;
  // Local. Returns a rank with fewer turns taken than this one, else -1; throws the reason of an abort. A load for each rank.
  int unread() const;
  // Local, as ThreadGroup::abort. Makes every rank's next operation and every poll throw this reason, or an earlier one.
  void abort(Error const& reason) { group_->abort(rank_, reason, in_flight()); }
  // Local. Throws the reason once any rank has aborted.
  void check() { group_->check(); }

  // Collective on a channel. Tells each receiver the place of its block; the receiver copies it while it polls. Copies at once
  // the rank's own block, and blocks of up to 64 bytes, which nobody need take for the request to be complete. Error:
  // invalid_argument for lists of another length than `size` and for channels out of range, misuse for a busy channel, mismatch
  // for sizes in disagreement, and the reason after an abort. A small block not expected by its receiver is a mismatch of the
  // receiver's next operation with a block from that rank.
  Request ialltoallv(int channel, Transfer const& transfer);

  // Returns the most requests from one rank to another not yet taken, as ThreadOptions say.
  int window() const { return group_->letters_.bounds.window; }
  // Returns the most bytes of a letter, as ThreadOptions say.
  std::size_t largest() const { return group_->letters_.bounds.largest; }
  // Local, without a lock but for the group's first letter. Posts a letter; the parts are copied. See Mailbox for refusals.
  bool post(LetterLane lane, int to, LetterParts parts);
  // Local, without a lock. Takes a letter: see Mailbox. Any rank's are looked for from the rank behind the last writer on.
  bool take(LetterLane lane, int from, Letter& letter);

  // Returns this rank's journal, owned by the group: peers read it in place.
  Journal& journal() { return group_->journals_[static_cast<std::size_t>(rank_)]; }
  // Local. Returns the present status in any rank's journal. `fresh`: set for this rank alone; others need not be awake.
  std::optional<RankStatus> status_of(int rank, bool& fresh) const;
  void answer() const {}  // the journals lie open to all ranks
  // Does nothing: peers read the pause in the journal.
  void announce() const {}
  // Local. Returns the longest pause in every other rank's journal, 0 for none: O(size).
  std::chrono::nanoseconds longest_pause() const;

  // Returns true: all memory can be lent, and a place is an address.
  bool lends(int /*one*/, int /*other*/) const { return true; }
  // Returns the address itself, with no end: nobody keeps track of the process's allocations.
  Place place_of(void const* memory) const {
    return {1, reinterpret_cast<std::uintptr_t>(memory), std::numeric_limits<std::uint64_t>::max()};
  }
  // Returns null: no memory is out of reach, and nobody stages.
  std::byte* window(int /*channel*/, std::size_t /*bytes*/) const { return nullptr; }
  // Returns the address given to `place_of`.
  std::byte* address_of(Place const& place) const { return reinterpret_cast<std::byte*>(place.offset); }
  // Local. Opens a loan of the channel, and returns its number: this rank's own, from 1, and never used again.
  std::uint64_t lend(int channel);
  // Local. Returns true if this loan is open, and holds it. A holder counts itself first, and is seen by an owner closing.
  bool hold(int channel, int rank, std::uint64_t number);
  // Local. Ends a successful `hold`.
  void release(int channel, int rank) noexcept { group_->loan(channel, rank).holders.fetch_sub(1); }
  // Closes the loan and waits until nobody holds it: as long as a peer takes to read its memory.
  void reclaim(int channel) noexcept;

 private:
  using Box = ThreadGroup::Box;
  using Mark = ThreadGroup::Mark;
  friend Request;

  // The operation in flight on one channel. `number` counts this rank's operations on it from 1.
  struct ChannelState {
    Transfer transfer;
    std::uint64_t number = 0;
    bool busy = false;
    int missing = 0, unposted = 0;  // blocks not yet arrived; blocks without a free box so far
    // State of the blocks from and to a rank.
    struct Peer {
      bool arrived;  // there is none to come, or it was taken
      bool posted;   // it lies in its box, or has
    };
    List<Peer> peers;  // by rank
  };

  // Returns the state of a rank reading in place, seen by all.
  ThreadGroup::Reader& reader(int rank) const { return group_->readers_[static_cast<std::size_t>(rank)]; }

  // Returns the stamp of a box for an operation: later operations, and later marks of one, have larger stamps.
  static std::uint64_t stamp(std::uint64_t number, Mark mark) { return number * 4 + mark; }

  // Returns the Error (mismatch) with the sender's rank, for the receiver to throw.
  PARALLAX_COLD Error disagreement(int source, std::string const& what) const;

  // Fills the free boxes of the operation: all of them, unless a peer is two operations behind.
  void fill_boxes(int channel, ChannelState& state);
  // Copies the block of `source` if it is there. Throws Error (mismatch) for a block other than this operation expects.
  void receive(int channel, ChannelState& state, int source);
  // Returns true if a box of this stamp has a block of an earlier operation, not expected there.
  static bool left_behind(std::uint64_t stamp, ChannelState const& state) {
    return stamp % 4 == Mark::posted && stamp / 4 < state.number;
  }
  // Throws Error (mismatch) if a box has an older block, or the sender is further on and has left this operation's out.
  void check_box(int channel, ChannelState const& state, int source);
  // Copies a block, in a box marked as being read, then as taken. Returns false if it was withdrawn; throws as `receive`.
  bool copy(int channel, ChannelState& state, int source);

  // Posts the blocks not yet posted. Takes the arrived ones, from the rank behind this one on: not all ranks read from rank 0
  // first.
  void receive(int channel, ChannelState& state);

  // Moves on the channel's operation, and while it is incomplete those on other channels too: a peer may be waiting for one of
  // them. Returns true once it is complete. After an abort it goes on as long as `hopes`.
  bool progress(int channel);
  // Returns true if, after an abort, an operation in flight may be completed all the same: the ranks gone had completed it, or
  // are not needed.
  PARALLAX_COLD bool hopes();
  // Aborts if the operation needs a rank after the end of its body; throws the reason of an abort unless it `hopes`.
  PARALLAX_COLD void look_for_the_gone(int channel, ChannelState& state, bool aborted);
  // Returns a rank gone, as ThreadGroup::gone has it, yet to deliver its block or to take this one's; or -1.
  PARALLAX_COLD int missed(int channel, ChannelState& state, std::uint64_t how);
  // Returns a bit for each channel with an operation in flight, and one for turns awaited.
  PARALLAX_COLD std::uint64_t in_flight() const;

  // Returns true if the operation has a block for that rank, announced by a box.
  bool sends_to(ChannelState const& state, int target) const {
    return target != rank_ && state.transfer.to[static_cast<std::size_t>(target)].bytes > 0;
  }
  // Returns true if that rank has yet to take its block; the block must stay until then.
  bool untaken(int channel, ChannelState const& state, int target) const {
    if (!sends_to(state, target)) return false;
    bool const inside = state.transfer.to[static_cast<std::size_t>(target)].bytes <= sizeof(Box::inside);
    if (inside) return !state.peers[static_cast<std::size_t>(target)].posted;
    return group_->box(channel, rank_, target, state.number).stamp.load(std::memory_order_acquire) !=
           stamp(state.number, Mark::taken);
  }
  // Returns a rank still to deliver, else one still to take its own block, or -1.
  int waiting_for(int channel) const;

  // Takes back all blocks that no peer has begun to read, and waits until the blocks being read are taken.
  void withdraw(int channel);

  // By channel; this end moves, the states do not.
  std::unique_ptr<std::array<ChannelState, channels>> states_;
  std::shared_ptr<ThreadGroup> group_;
  int rank_, in_flight_ = 0;
  mutable bool awaits_turns_ = false;
  std::uint64_t loans_ = 0;     // ever made by this rank
  std::array<int, 2> turns_{};  // by lane: the rank looked at first for a letter
};

static_assert(AnnouncesPauses<ThreadCommunicator> && LendsMemory<ThreadCommunicator> && ReadsInPlace<ThreadCommunicator> &&
              TellsOfAborts<ThreadCommunicator> && Mailbox<ThreadCommunicator>);

template <class Body>
void run_threads(int size, Body&& body, ThreadOptions options) {
  auto const call = [&](ThreadCommunicator& world) { body(world); };
  detail::run_thread_ranks(size, call, options);
}

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/thread-inl.hpp"
#endif
