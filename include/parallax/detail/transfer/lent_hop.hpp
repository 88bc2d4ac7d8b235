// One hop of a reduction between ranks that lend each other their memory: owners sum the addends in place. The dense exchange
// calls it for hops that lend.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/streamed.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/transfer/lane.hpp"

namespace parallax::inline v0_2 {

// Returns the first element of owner o's part when n elements are dealt to `owners` in order: floor(n·o / owners).
constexpr std::size_t part_begin(std::size_t n, int owner, int owners) {
  auto const o = static_cast<std::size_t>(owner), count = static_cast<std::size_t>(owners);
  return n / count * o + n % count * o / count;
}

namespace detail {

// Returns the first element of digit t of a hop: of owner base + t·stride. `offsets`: every owner's first element, and the end.
inline std::size_t digit_begin(Slice<std::size_t const> offsets, Hop const& hop, std::size_t digit) {
  return offsets[static_cast<std::size_t>(hop.base) + digit * static_cast<std::size_t>(hop.stride)];
}
// Returns the number of elements of all owners of one digit.
inline std::size_t digit_size(Slice<std::size_t const> offsets, Hop const& hop, std::size_t digit) {
  return digit_begin(offsets, hop, digit + 1) - digit_begin(offsets, hop, digit);
}
// Returns the number of elements of the largest digit in all groups of a hop: every rank derives its number of rounds from it.
inline std::size_t largest_digit(Slice<std::size_t const> offsets, Hop const& hop) {
  auto const stride = static_cast<std::size_t>(hop.stride);
  std::size_t largest = 0;
  for (std::size_t o = 0; o + stride < offsets.size(); o += stride)
    largest = std::max(largest, offsets[o + stride] - offsets[o]);
  return largest;
}

// Elements of a part in a round: the first one, and their number.
struct PartRound {
  std::size_t begin, count;
};
// Returns the elements of round j, of a part of `size`, in rounds of `round_size`.
inline PartRound round_of_part(std::size_t size, std::size_t j, std::size_t round_size) {
  std::size_t const begin = std::min(size, j * round_size);
  return {begin, std::min(size - begin, round_size)};
}

// Elements of a tile: the running sum stays in the first-level cache.
inline constexpr std::size_t sum_tile = 2048;
// Adds n elements of `in` to those of `out`; the two do not overlap.
template <class T>
void add_to(T* __restrict out, T const* __restrict in, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] += in[i];
}

// Returns the Error (mismatch) of a rank `rank` whose loan has another size than `own`, the loan of rank `self`.
PARALLAX_COLD inline Error loan_disagreement(int rank, LoanRoom::Loan const& loan, int self, LoanRoom::Loan const& own) {
  return {Errc::mismatch, rank, "reduction in memory", "",
          joined({"rank ", rank, " brought ", loan.bytes / loan.unit, " elements of ", loan.unit, " bytes where ",
                  own.bytes / own.unit, " of ", own.unit, " were expected by rank ", self})};
}

}  // namespace detail

// The owner of a part reads the addends of all ranks, in the order of sums, and writes the sum to every rank that needs it;
// nothing is packed, and nobody returns while a peer reads or writes. Memory out of the peers' reach is staged: it passes
// through the channel's window round by round, while owners sum the round before and the one before that is taken out. Staging
// is a rank's own affair, every round is one operation on the lane, and has at most `round_size` elements per part.
template <class T, Communicator C>
class LentHop {
 public:
  // Vectors of the caller, laid out owner after owner, from the hop's first digit on. A null one is not wanted.
  struct Work {
    T const* input;  // the addends; null: the own part is there already
    T* own;          // the place of the sum of this rank's part, before or after it is made
    T* whole;        // the place of the sums of all parts; may be the input, else they do not overlap
  };

  // Collective in the order of the lane, with the same members of `work` wanted on all ranks. Begins a hop, and posts nothing.
  // Memory of `offsets` and `work` must stay until `poll` is true. The work of a rank without part in the hop is left alone.
  void start(Slice<std::size_t const> offsets, std::size_t round_size, Work work) {
    offsets_ = offsets;
    largest_round_ = round_size;
    work_ = work;
    open_ = false;
  }

  // Makes progress; returns true once the sums are made and nobody touches the given memory any more. Throws Error (mismatch)
  // if ranks bring different sizes, and the communicator's errors.
  bool poll(Lane<C>& lane, Hop const& hop);

 private:
  static constexpr std::size_t tile = detail::sum_tile;
  // Bytes of a step, all parts together. Fewer are still in their writer's cache, and slow to read for others.
  static constexpr std::size_t step_bytes = std::size_t{1} << 20;
  static constexpr std::size_t slot_count = 3;  // of a window: filled, summed, taken out

  using Loan = detail::LoanRoom::Loan;
  using Peer = detail::LoanRoom::Peer;

  // Opens the hop: sets the number of rounds, and begins with an exchange of loans. Returns false if there is nothing to do, on
  // all ranks.
  bool open(Lane<C>& lane, Hop const& hop);

  // Sends this rank's loan to every owner, and as an owner expects the senders' loans. Elements read in place are counted here.
  void post_loans(Lane<C>& lane, Hop const& hop);

  // Finds the work's memory in the peers' reach, makes a window for the rest (else Error out_of_memory), and stages round 0.
  void make_loan(Lane<C>& lane, Hop const& hop);
  // Returns the place of `bytes` at `memory`; one with id 0 if not all of them lie in one block.
  static Place place_of(C& world, T const* memory, std::size_t bytes) {
    Place const place = memory ? world.place_of(memory) : Place{};
    return place.bytes - place.offset >= bytes ? place : Place{};
  }
  // Returns this rank's loan, in the lane.
  Loan& mine() const { return room_->mine; }
  Buffer<Peer>& peers() { return room_->peers; }
  // Returns true if anything of this rank's passes through its window.
  bool stages() const { return mine().stages_input || mine().stages_whole; }

  // Turns loans heard into addresses. Throws Error (mismatch) if a rank lends a vector of another size, or address_of's error.
  void reach(Lane<C>& lane, Hop const& hop);

  // Posts a step. A rank that stages hears from the owners after each step, and they from it; after the last step all hear from
  // the owners. An owner that has lost a peer tells nobody that it is done.
  void post_step(Lane<C>& lane, Hop const& hop);

  // Closes the hop, and returns true: the last sums come out of the window, and the loan ends.
  bool close(Lane<C>& lane, Hop const& hop) {
    take(hop, rounds_ - 1);
    lane.reclaim();
    open_ = false;
    return true;
  }

  // Puts round j of this rank's addends for others into the window; `take` takes the sums out of it. The own part stays in its
  // place.
  void stage(Hop const& hop, std::size_t j) {
    if (!mine().stages_input) return;
    each_part(hop, j, [&](std::size_t at, T* slot, std::size_t count) { copy(slot, work_.input + at, count); });
  }
  void take(Hop const& hop, std::size_t j);
  // Calls `f` with a part's begin in the vector, its slot in the window, and its elements, for each part of others in round j.
  template <class F>
  void each_part(Hop const& hop, std::size_t j, F&& f) {
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      auto const [begin, count] = detail::round_of_part(detail::digit_size(offsets_, hop, t), j, round_size_);
      if (count == 0 || static_cast<int>(t) == hop.self) continue;
      f(first_of(hop, t) + begin, window_ + ((j % slot_count) * hop.targets.size() + t) * round_size_, count);
    }
  }

  // Sums this owner's part of round j, with the loans of all peers held. If a peer has left, nothing is summed any more, and
  // its abort is awaited by the next polls.
  void sum(Lane<C>& lane, Hop const& hop, std::size_t j);

  // A run of elements: its begin in the own part, in the whole, and in a window.
  struct Extent {
    std::size_t in_part, in_whole, in_window, count;
  };
  // Returns the place of a peer's addend; `target`: of its sum. In the window if it stages.
  T const* addend(Peer const& p, Extent const& run) const {
    return p.stages_input ? static_cast<T const*>(p.window) + run.in_window : static_cast<T const*>(p.input) + run.in_whole;
  }
  T* target(Peer const& p, Extent const& run) const {
    return p.stages_whole ? static_cast<T*>(p.window) + run.in_window : static_cast<T*>(p.whole) + run.in_whole;
  }
  // Sums one run of all peers, in the order of sums.
  void sum_run(Extent const& run);
  // Sums two peers' run in one pass over memory.
  void sum_pair(T* own, Extent const& run) {
    Peer const &p = peers()[0], &q = peers()[1];
    if (!work_.whole) return add(own, own, addend(p, run), addend(q, run), run.count);
    add(target(p, run), target(q, run), addend(p, run), addend(q, run), run.count);
    if (own) copy(own, work_.whole + run.in_whole, run.count);
  }
  // Writes sums to all ranks that want them.
  void spread(T const* sums, Extent const& run) {
    for (Peer const& p : Slice<Peer const>{peers()}) copy(target(p, run), sums, run.count);
  }
  // Writes the sums of n elements of two addends to x and to y. Each of these may lie on an addend.
  static void add(T* x, T* y, T const* a, T const* b, std::size_t n) {
    if constexpr (detail::may_widen && std::is_arithmetic_v<T>)
      if (detail::machine_is_wider()) return add_lines(x, y, a, b, n);
    constexpr std::size_t block = 8;  // sums of a block are made before it is written: compilers then take vectors
    std::size_t i = 0;
    for (; n - i >= block; i += block) {
      T sums[block];
      for (std::size_t k = 0; k < block; ++k) sums[k] = a[i + k] + b[i + k];
      std::memcpy(x + i, sums, sizeof sums), std::memcpy(y + i, sums, sizeof sums);
    }
    for (; i < n; ++i) x[i] = y[i] = a[i] + b[i];
  }
  // Does as `add`, a whole cache line of each in turn. A processor that predicts the way of a line from a hash of its virtual
  // address (Lipp et al., "Take A Way", AsiaCCS 2020, section 3) takes some addresses for each other, such as those of two
  // vectors of 64 MB that were allocated one after the other; then each access to one makes the next to the other a miss.
  PARALLAX_WIDER static void add_lines(T* x, T* y, T const* a, T const* b, std::size_t n) {
    typedef T Half __attribute__((vector_size(32)));
    constexpr std::size_t half = 32 / sizeof(T), line = 2 * half;
    std::size_t const odd = reinterpret_cast<std::uintptr_t>(a) / sizeof(T) % line;
    std::size_t const head = std::min(n, (line - odd) % line), end = head + (n - head) / line * line;
    for (std::size_t i = 0; i < head; ++i) x[i] = y[i] = a[i] + b[i];
    for (std::size_t i = head; i < end; i += line) {
      Half s, t, u, v;
      std::memcpy(&s, a + i, sizeof s), std::memcpy(&t, a + i + half, sizeof t);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);  // the compiler keeps the order
      std::memcpy(&u, b + i, sizeof u), std::memcpy(&v, b + i + half, sizeof v);
      s += u, t += v;
      std::memcpy(x + i, &s, sizeof s), std::memcpy(x + i + half, &t, sizeof t);
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      std::memcpy(y + i, &s, sizeof s), std::memcpy(y + i + half, &t, sizeof t);
    }
    for (std::size_t i = end; i < n; ++i) x[i] = y[i] = a[i] + b[i];
  }
  // Copies; nothing if both are the same.
  static void copy(T* to, T const* from, std::size_t n) {
    if (to != from) std::memcpy(to, from, n * sizeof(T));
  }

  // Returns the number of elements before digit t in the hop's vector.
  std::size_t first_of(Hop const& hop, std::size_t t) const {
    return detail::digit_begin(offsets_, hop, t) - detail::digit_begin(offsets_, hop, 0);
  }
  std::size_t own_size(Hop const& hop) const { return detail::digit_size(offsets_, hop, static_cast<std::size_t>(hop.self)); }

  // The arguments of `start`; the caller keeps them.
  Slice<std::size_t const> offsets_;
  Work work_{};
  // Elements per part, as asked for and as used; then rounds in all, and steps taken.
  std::size_t largest_round_ = 1, round_size_ = 1, rounds_ = 0, step_ = 0;
  bool open_ = false;
  int lost_ = -1;  // a peer that has left
  // The communicator's; null if this rank stages nothing.
  T* window_ = nullptr;
  detail::LoanRoom* room_ = nullptr;
};

template <class T, Communicator C>
bool LentHop<T, C>::poll(Lane<C>& lane, Hop const& hop) {
  if constexpr (LendsMemory<C>) {
    if (!open_ && !open(lane, hop)) return true;
    while (lane.test()) {
      if (step_ == 0) reach(lane, hop);
      if (step_ == rounds_) return close(lane, hop);
      ++step_;
      stage(hop, step_);
      sum(lane, hop, step_ - 1);
      if (step_ >= 2) take(hop, step_ - 2);
      post_step(lane, hop);
      if (step_ % 4 == 0) return false;  // polls are short
    }
  }
  return false;
}

template <class T, Communicator C>
bool LentHop<T, C>::open(Lane<C>& lane, Hop const& hop) {
  auto const ranks = static_cast<std::size_t>(hop.fan_out);
  std::size_t const largest = detail::largest_digit(offsets_, hop);
  round_size_ = std::clamp(step_bytes / sizeof(T) / ranks, std::size_t{1}, std::max<std::size_t>(largest_round_, 1));
  rounds_ = (largest + round_size_ - 1) / round_size_;
  if (rounds_ == 0) return false;
  open_ = true;
  step_ = 0;
  lost_ = -1;
  room_ = &lane.loan_room();
  mine() = {};
  lane.clear();
  post_loans(lane, hop);
  return true;
}

template <class T, Communicator C>
void LentHop<T, C>::post_loans(Lane<C>& lane, Hop const& hop) {
  if (!hop.targets.empty()) make_loan(lane, hop);
  int const self = lane.topology().rank();
  for (std::size_t t = 0; t < hop.targets.size(); ++t) {
    if (hop.targets[t] == self) continue;
    std::size_t const bytes = detail::digit_size(offsets_, hop, t) * sizeof(T);
    lane.send(hop.targets[t], 0, sizeof(Loan), Payload::control);
    lane.count_lent(hop.targets[t], work_.input ? bytes : 0, work_.whole ? bytes : 0, Payload::dense);
  }
  room_->heard.resize(hop.sources.size());
  for (std::size_t s = 0; s < hop.sources.size(); ++s) {
    if (hop.sources[s] == self) continue;
    std::size_t const bytes = own_size(hop) * sizeof(T);
    lane.expect(hop.sources[s], s * sizeof(Loan), sizeof(Loan), Payload::control);
    lane.count_lent(hop.sources[s], work_.whole ? bytes : 0, work_.input ? bytes : 0, Payload::dense);
  }
  lane.post(&mine(), room_->heard.data());
}

template <class T, Communicator C>
void LentHop<T, C>::make_loan(Lane<C>& lane, Hop const& hop) {
  C& world = lane.topology().world();
  Loan& loan = mine();
  std::size_t const size = detail::digit_begin(offsets_, hop, hop.targets.size()) - detail::digit_begin(offsets_, hop, 0);
  loan.bytes = size * sizeof(T);
  loan.unit = sizeof(T);
  loan.input = place_of(world, work_.input, loan.bytes);
  loan.whole = place_of(world, work_.whole, loan.bytes);
  bool const alone = hop.targets.size() == 1 && hop.self == 0;
  loan.stages_input = work_.input && !loan.input.id && !alone;
  loan.stages_whole = work_.whole && !loan.whole.id && !alone;
  window_ = nullptr;
  if (stages()) {
    window_ = reinterpret_cast<T*>(world.window(lane.channel(), slot_count * hop.targets.size() * round_size_ * sizeof(T)));
    loan.window = world.place_of(window_);
  }
  loan.number = lane.lend();
  stage(hop, 0);
}

template <class T, Communicator C>
void LentHop<T, C>::reach(Lane<C>& lane, Hop const& hop) {
  C& world = lane.topology().world();
  peers().resize(hop.sources.size());
  for (std::size_t s = 0; s < hop.sources.size(); ++s) {
    int const rank = hop.sources[s];
    Peer& peer = peers()[s];
    peer = {rank, 0, work_.input, work_.whole, nullptr, false, false};
    if (rank == world.rank()) continue;
    Loan const& loan = room_->heard[s];
    if (loan.bytes != mine().bytes || loan.unit != mine().unit)
      throw detail::loan_disagreement(rank, loan, world.rank(), mine());
    auto const find = [&](Place const& place) { return place.id ? world.address_of(place) : nullptr; };
    std::byte* window = find(loan.window);
    if (window) window += static_cast<std::size_t>(hop.self) * round_size_ * sizeof(T);
    peer = {rank, loan.number, find(loan.input), find(loan.whole), window, loan.stages_input, loan.stages_whole};
  }
}

template <class T, Communicator C>
void LentHop<T, C>::post_step(Lane<C>& lane, Hop const& hop) {
  lane.clear();
  bool const last = step_ == rounds_;
  auto const meet = [&](int rank, bool sends, bool expects) {
    if (sends && lost_ < 0) lane.send(rank, 0, 1, Payload::control);
    if (expects) lane.expect(rank, 2 + 2 * static_cast<std::size_t>(rank), 1, Payload::control);
  };
  int const self = lane.topology().rank();
  for (int const owner : hop.targets)
    if (owner != self) meet(owner, !last && stages(), last || stages());
  for (Peer const& peer : Slice<Peer const>{peers()})
    if (peer.rank != self) {
      bool const staged = peer.stages_input || peer.stages_whole;
      meet(peer.rank, last || staged, (!last && staged) || peer.rank == lost_);
    }
  lane.post(room_->tokens.data(), room_->tokens.data());
}

template <class T, Communicator C>
void LentHop<T, C>::take(Hop const& hop, std::size_t j) {
  if (!mine().stages_whole) return;
  bool const streams = mine().bytes >= detail::many_bytes;
  each_part(hop, j, [&](std::size_t at, T* slot, std::size_t count) {
    if (streams) detail::stream_bytes(work_.whole + at, slot, count * sizeof(T));
    else copy(work_.whole + at, slot, count);
  });
}

template <class T, Communicator C>
void LentHop<T, C>::sum(Lane<C>& lane, Hop const& hop, std::size_t j) {
  if (hop.self < 0 || lost_ >= 0) return;
  auto const [begin, count] = detail::round_of_part(own_size(hop), j, round_size_);
  if (count == 0) return;
  C& world = lane.topology().world();
  std::size_t held = 0;
  for (; held < peers().size(); ++held) {
    Peer const& peer = peers()[held];
    if (peer.rank == world.rank() || world.hold(lane.channel(), peer.rank, peer.number)) continue;
    lost_ = peer.rank;
    break;
  }
  if (lost_ < 0) {
    std::size_t const slot = (j % slot_count) * hop.targets.size() * round_size_;
    std::size_t const own = first_of(hop, static_cast<std::size_t>(hop.self));
    std::size_t const run = peers().size() == 2 ? count : tile;
    for (std::size_t at = 0; at < count; at += run)
      sum_run({begin + at, own + begin + at, slot + at, std::min(run, count - at)});
  }
  for (std::size_t p = 0; p < held; ++p)
    if (peers()[p].rank != world.rank()) world.release(lane.channel(), peers()[p].rank);
}

template <class T, Communicator C>
void LentHop<T, C>::sum_run(Extent const& run) {
  T* const own = work_.own ? work_.own + run.in_part : nullptr;
  if (!work_.input) return spread(own, run);
  if (peers().size() == 2) return sum_pair(own, run);
  T sums[tile];  // a sum in place would overwrite later addends
  copy(sums, addend(peers()[0], run), run.count);
  for (std::size_t p = 1; p < peers().size(); ++p) detail::add_to(sums, addend(peers()[p], run), run.count);
  if (own) copy(own, sums, run.count);
  if (work_.whole) spread(sums, run);
}

}  // namespace parallax
