// Bodies of parallax/comm/thread.hpp.
#pragma once

#include "parallax/comm/thread.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
    : states_{std::make_unique<std::array<ChannelState, channels>>()}, group_{std::move(group)}, rank_{rank} {
  if (rank < 0 || rank >= group_->size())
    throw Error{Errc::invalid_argument, rank, "ThreadCommunicator", "",
                "the group has " + std::to_string(group_->size()) + " ranks"};
  for (ChannelState& state : *states_) state.peers.resize(static_cast<std::size_t>(group_->size()));
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
  if (awaits_turns_ && group_->some_ended() && group_->gone(behind, ThreadGroup::has_ended) && is_behind(behind))
    group_->miss(behind);
  if (!group_->aborted()) return behind;
  bool const in_vain = behind >= 0 && (!group_->lingers() || (group_->gone(behind) && is_behind(behind)));
  if (in_vain || group_->given_up(ThreadGroup::turns)) group_->refuse();
  return behind;
}

PARALLAX_INLINE Error ThreadCommunicator::disagreement(int source, std::string const& what) const {
  return {Errc::mismatch, source, "ialltoallv", "",
          "rank " + std::to_string(source) + " " + what + " rank " + std::to_string(rank_)};
}

PARALLAX_INLINE void ThreadCommunicator::fill_boxes(int channel, ChannelState& state) {
  for (int target = 0; target < size() && state.unposted > 0; ++target) {
    Box& box = group_->box(channel, rank_, target, state.number);
    bool& posted = state.peers[static_cast<std::size_t>(target)].posted;
    if (posted || !sends_to(state, target) || !box.free()) continue;
    ByteRange const& block = state.transfer.to[static_cast<std::size_t>(target)];
    box.data = state.transfer.send + block.offset;
    box.bytes = block.bytes;
    if (block.bytes <= sizeof box.inside) box.data = static_cast<std::byte*>(std::memcpy(box.inside, box.data, block.bytes));
    box.stamp.store(stamp(state.number, Mark::posted), std::memory_order_release);
    posted = true;
    --state.unposted;
  }
}

PARALLAX_INLINE void ThreadCommunicator::receive(int channel, ChannelState& state, int source) {
  Box& box = group_->box(channel, source, rank_, state.number);
  bool const here = box.stamp.load(std::memory_order_acquire) == stamp(state.number, Mark::posted);
  std::uint64_t const other = group_->box(channel, source, rank_, state.number + 1).stamp.load(std::memory_order_relaxed);
  if (!here || left_behind(other, state)) return check_box(channel, state, source);
  if (!copy(channel, state, source)) return;
  state.peers[static_cast<std::size_t>(source)].arrived = true;
  --state.missing;
}

PARALLAX_INLINE void ThreadCommunicator::check_box(int channel, ChannelState const& state, int source) {
  auto const seen = [&](std::uint64_t number) {
    return group_->box(channel, source, rank_, number).stamp.load(std::memory_order_acquire);
  };
  // The other box first: a rank further on has posted this operation's block before, if there is one.
  std::uint64_t const other = seen(state.number + 1), own = seen(state.number);
  if (left_behind(own, state) || left_behind(other, state))
    throw disagreement(source, "has sent bytes before that were not expected by");
  if (own / 4 != state.number && std::max(own, other) / 4 > state.number)
    throw disagreement(source, "sent nothing in this operation to");
}

PARALLAX_INLINE bool ThreadCommunicator::copy(int channel, ChannelState& state, int source) {
  Box& box = group_->box(channel, source, rank_, state.number);
  ByteRange const expected = state.transfer.from[static_cast<std::size_t>(source)];
  std::uint64_t seen = stamp(state.number, Mark::posted);
  if (!box.stamp.compare_exchange_strong(seen, stamp(state.number, Mark::reading), std::memory_order_acquire)) return false;
  std::size_t const bytes = box.bytes;
  if (bytes == expected.bytes) std::memcpy(state.transfer.receive + expected.offset, box.data, bytes);
  box.stamp.store(stamp(state.number, Mark::taken), std::memory_order_release);
  if (bytes == expected.bytes) return true;
  throw disagreement(source,
                     "sent " + std::to_string(bytes) + " bytes where " + std::to_string(expected.bytes) + " were expected by");
}

PARALLAX_INLINE void ThreadCommunicator::receive(int channel, ChannelState& state) {
  if (state.unposted > 0) fill_boxes(channel, state);
  for (int k = 1; k < size() && state.missing > 0; ++k) {
    int const source = (rank_ + k) % size();
    if (!state.peers[static_cast<std::size_t>(source)].arrived) receive(channel, state, source);
  }
}

PARALLAX_INLINE bool ThreadCommunicator::progress(int channel) {
  ChannelState& state = (*states_)[static_cast<std::size_t>(channel)];
  if (!state.busy) return true;
  receive(channel, state);
  bool complete = state.missing == 0;
  for (int target = 0; target < size() && complete; ++target) complete = !untaken(channel, state, target);
  bool const aborted = group_->aborted();
  if (complete && !(aborted && group_->given_up(channel))) {
    state.busy = false;
    --in_flight_;
    return true;
  }
  for (int other = 0; other < channels && in_flight_ > 1; ++other)
    if (ChannelState& lagging = (*states_)[static_cast<std::size_t>(other)]; lagging.busy) receive(other, lagging);
  if (aborted || group_->some_ended()) look_for_the_gone(channel, state, aborted);
  return false;
}

PARALLAX_INLINE void ThreadCommunicator::look_for_the_gone(int channel, ChannelState& state, bool aborted) {
  int const ended = aborted ? -1 : missed(channel, state, ThreadGroup::has_ended);
  if (ended >= 0) group_->miss(ended);
  if ((aborted || ended >= 0) && !hopes()) group_->refuse();
}

// Looks once more for the blocks of a rank gone: all of them are there.
PARALLAX_INLINE int ThreadCommunicator::missed(int channel, ChannelState& state, std::uint64_t how) {
  for (int rank = 0; rank < size(); ++rank) {
    if (!group_->gone(rank, how)) continue;
    receive(channel, state);
    if (!state.peers[static_cast<std::size_t>(rank)].arrived || untaken(channel, state, rank)) return rank;
  }
  return -1;
}

PARALLAX_INLINE bool ThreadCommunicator::hopes() {
  auto const may_be_completed = [&](int channel) {
    ChannelState& state = (*states_)[static_cast<std::size_t>(channel)];
    return state.busy && missed(channel, state, ThreadGroup::is_gone) < 0 && !group_->given_up(channel);
  };
  if (group_->gone(rank_) || !group_->lingers()) return false;
  int channel = 0;
  while (channel < channels && !may_be_completed(channel)) ++channel;
  return channel < channels;
}

PARALLAX_INLINE std::uint64_t ThreadCommunicator::in_flight() const {
  std::uint64_t bits = std::uint64_t{awaits_turns_} << ThreadGroup::turns;
  for (std::size_t channel = 0; channel < channels; ++channel) bits |= std::uint64_t{(*states_)[channel].busy} << channel;
  return bits;
}

PARALLAX_INLINE int ThreadCommunicator::waiting_for(int channel) const {
  ChannelState const& state = (*states_)[static_cast<std::size_t>(channel)];
  if (!state.busy) return -1;
  for (int k = 1; k < size(); ++k)
    if (int const rank = (rank_ + k) % size(); !state.peers[static_cast<std::size_t>(rank)].arrived) return rank;
  for (int k = 1; k < size(); ++k)
    if (int const rank = (rank_ + k) % size(); untaken(channel, state, rank)) return rank;
  return -1;
}

PARALLAX_INLINE void ThreadCommunicator::withdraw(int channel) {
  ChannelState& state = (*states_)[static_cast<std::size_t>(channel)];
  if (!state.busy || group_->birth_.in_child()) return;
  for (int target = 0; target < size(); ++target) {
    if (!state.peers[static_cast<std::size_t>(target)].posted) continue;
    Box& box = group_->box(channel, rank_, target, state.number);
    std::uint64_t expected = stamp(state.number, Mark::posted);
    if (box.stamp.compare_exchange_strong(expected, stamp(state.number, Mark::taken), std::memory_order_acq_rel)) continue;
    while (box.stamp.load(std::memory_order_acquire) != stamp(state.number, Mark::taken)) detail::rest();
  }
  state.busy = false;
  --in_flight_;
}

PARALLAX_INLINE ThreadCommunicator::Request ThreadCommunicator::ialltoallv(int channel, Transfer const& transfer) {
  group_->birth_.check(rank_, "ialltoallv");
  if (in_flight_ == 0) group_->check();
  check_channel(rank_, "ialltoallv", channel);
  check_lists(rank_, size(), "ialltoallv", transfer);
  ChannelState& state = (*states_)[static_cast<std::size_t>(channel)];
  if (state.busy) throw busy_channel(rank_, "ialltoallv", channel);
  ByteRange const out = transfer.to[static_cast<std::size_t>(rank_)], in = transfer.from[static_cast<std::size_t>(rank_)];
  if (out.bytes != in.bytes) throw disagreement(rank_, "sends to itself another size than it expects:");
  state.transfer = transfer;
  state.number += 1;
  state.busy = true;
  ++in_flight_;
  state.missing = state.unposted = 0;
  for (int other = 0; other < size(); ++other) {
    auto const place = static_cast<std::size_t>(other);
    bool const expected = other != rank_ && transfer.from[place].bytes > 0;
    state.peers[place] = {!expected, false};
    state.missing += expected;
    state.unposted += sends_to(state, other);
  }
  if (out.bytes) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
  fill_boxes(channel, state);
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
      group->end(rank);
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

}  // namespace parallax
