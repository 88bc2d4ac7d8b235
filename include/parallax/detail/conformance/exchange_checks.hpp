// The checks of `check_communicator` for every rank: exchanges, channels, requests and the optional abilities. Each check is an
// object, called with the communicator and a seed, and throws a Failure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/detail/conformance/exchange.hpp"

namespace parallax_conformance::inline v0_2 {

// Check of the ranks: numbered 0 … size - 1, each once; and of a positive deadline.
struct EveryRankIsThereOnce {
  // Collective, and waits. Sends this rank's number to all, and looks at theirs. The seed does not matter.
  template <class C>
  void operator()(C& comm, std::uint64_t) const {
    auto const ranks = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
    require(comm.size() >= 1 && comm.rank() >= 0 && self < ranks, "rank and size make no sense");
    require(std::chrono::nanoseconds{comm.deadline()}.count() > 0, "the deadline is not positive");
    std::vector<int> const all = told_to_all(comm, comm.rank(), -1);
    for (std::size_t r = 0; r < ranks; ++r)
      require(all[r] == static_cast<int>(r), "rank " + std::to_string(r) + " calls itself " + std::to_string(all[r]));
  }
};

// Check of blocks of all sizes, with gaps between them: they arrive in their places.
struct RaggedBlocks {
  // Collective, and waits. Runs 60 exchanges of ragged sizes, one after another.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    for (std::uint64_t i = 0; i < 60; ++i) exchange_ragged(comm, 0, mix(seed, i));
  }
};

// Check of an operation without any sender: it completes.
struct NothingAtAll {
  // Collective, and waits. Runs five exchanges of nothing, one with blocks between, and one without memory.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    for (std::uint64_t i = 0; i < 5; ++i) exchange(comm, 0, CheckedTransfer{comm, mix(seed, i), even(0)});
    // One with blocks must not be taken for one without.
    exchange_ragged(comm, 0, seed);
    std::vector<parallax::ByteRange> const none(static_cast<std::size_t>(comm.size()));
    auto request = comm.ialltoallv(0, {nullptr, none, nullptr, none});
    complete(comm, request);
  }
};

// Check of operations with little to do for most ranks: they complete.
struct OnePairOrOnlyOneself {
  // Collective, and waits. Every rank sends to itself alone; then each rank in turn sends to the next one alone.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    exchange(comm, 0, CheckedTransfer{comm, seed, [](int s, int t) { return s == t ? std::size_t{777} : 0; }});
    for (int source = 0; source < comm.size(); ++source) {
      int const target = (source + 1) % comm.size();
      auto const bytes = [&](int s, int t) { return s == source && t == target ? std::size_t{333} : 0; };
      exchange(comm, 0, CheckedTransfer{comm, mix(seed, static_cast<std::uint64_t>(source)), bytes});
    }
  }
};

// Check of an allgatherv: every rank sends one block to all, and all read the same memory.
struct OneBlockForAll {
  // Collective, and waits. Runs ten such operations, of ragged sizes.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    auto const ranks = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
    for (std::uint64_t i = 0; i < 10; ++i) {
      auto const bytes = [&](std::size_t r) { return ragged(mix(seed, i), static_cast<int>(r), 0); };
      auto const value = [&](std::size_t r, std::size_t k) { return static_cast<std::byte>(mix(seed, i, r, k)); };
      std::vector<std::byte> mine(bytes(self));
      for (std::size_t k = 0; k < mine.size(); ++k) mine[k] = value(self, k);
      // One block for each target, all of them the same memory.
      std::vector<parallax::ByteRange> const to(ranks, {0, mine.size()});
      std::vector<parallax::ByteRange> from(ranks);
      std::size_t end = 0;
      for (std::size_t r = 0; r < ranks; end += from[r].bytes, ++r) from[r] = {end, bytes(r)};
      std::vector<std::byte> all(end);
      auto request = comm.ialltoallv(1, {mine.data(), to, all.data(), from});
      complete(comm, request);
      for (std::size_t r = 0; r < ranks; ++r)
        for (std::size_t k = 0; k < from[r].bytes; ++k)
          require(all[from[r].offset + k] == value(r, k),
                  "byte " + std::to_string(k) + " gathered from rank " + std::to_string(r) + " is wrong");
    }
  }
};

// Check of the order on one channel. Sizes are equal, so contents alone tell operations apart; ranks are late in turn.
struct ManyInARow {
  // Collective, and waits. Runs 300 operations, with a sleep before some of them.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    Dice dice{mix(seed, static_cast<std::uint64_t>(comm.rank()))};
    for (std::uint64_t i = 0; i < 300; ++i) {
      if (dice.below(50) == 0) std::this_thread::sleep_for(std::chrono::microseconds{dice.below(500)});
      exchange(comm, 2, CheckedTransfer{comm, mix(seed, i), even(16)});
    }
  }
};

// Check of the order across channels: every rank posts on all of them in an order of its own, tests them in another, and
// completes them as they come.
struct ChannelsAreIndependent {
  // Collective, and waits. Runs ten rounds of an operation on each channel.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    for (std::uint64_t round = 0; round < 10; ++round) {
      std::deque<CheckedTransfer> parts;
      for (int channel = 0; channel < parallax::channels; ++channel) {
        // Odd channels carry ragged blocks, the others equal ones.
        std::uint64_t const own = mix(seed, round, channel);
        parts.emplace_back(comm, own, [&](int s, int t) { return channel % 2 ? ragged(own, s, t) : std::size_t{64}; });
      }
      Dice dice{mix(seed, round, comm.rank())};
      using Request = parallax::request_of<C>;
      std::vector<std::pair<int, Request>> flying;
      for (int const channel : dice.shuffled(parallax::channels))
        flying.emplace_back(channel, comm.ialltoallv(channel, parts[static_cast<std::size_t>(channel)].transfer()));
      for (int const other : dice.shuffled(parallax::channels)) std::swap(flying[0], flying[static_cast<std::size_t>(other)]);
      while (!flying.empty()) {
        std::size_t const pick = dice.below(flying.size());
        auto& [channel, request] = flying[pick];
        if (dice.below(4) == 0) {
          complete(comm, request);
        } else if (!request.test()) {
          std::this_thread::yield();
          continue;
        }
        parts[static_cast<std::size_t>(channel)].check();
        flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(pick));
      }
    }
  }
};

// Check of `waiting_for`: it names the late rank, and nothing is complete before all have begun. The late rank posts only when
// all others have named it.
struct ALateRankIsNamed {
  // Collective, and waits. Lets each rank be late once.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    for (int late = 0; late < comm.size() && comm.size() > 1; ++late) {
      CheckedTransfer const part{comm, mix(seed, static_cast<std::uint64_t>(late)), even(100)};
      CheckedTransfer const go{comm, seed, [&](int, int t) { return t == late ? std::size_t{1} : 0; }};
      // By `go` the others tell the late rank, on another channel, that they have named it.
      if (comm.rank() == late) {
        exchange(comm, 1, go);
        exchange(comm, 0, part);
        continue;
      }
      auto request = comm.ialltoallv(0, part.transfer());
      parallax::Patience<C> patience{comm};
      while (request.waiting_for() != late) {
        require(!request.test(), "an exchange was complete although rank " + std::to_string(late) + " had not begun it");
        require(patience.pause(), "the late rank " + std::to_string(late) + " was not named by waiting_for");
      }
      exchange(comm, 1, go);
      complete(comm, request);
      part.check();
    }
  }
};

// Check of blocks of megabytes, all ranks together: no small buffer holds them.
struct BigBlocks {
  // Collective, and waits. Runs one exchange of such blocks.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    auto const ranks = static_cast<std::size_t>(comm.size());
    // Some MiB for all blocks together, however many ranks there are.
    std::size_t const most = std::max<std::size_t>(10000, (std::size_t{4} << 20) / (ranks * ranks));
    auto const bytes = [&](int source, int target) { return most - ragged(seed, source, target); };
    exchange(comm, 0, CheckedTransfer{comm, seed, bytes});
  }
};

// Check of requests, moved while under way, and assigned to once they are complete.
struct RequestsMove {
  // Collective, and waits. Runs two exchanges with moving requests.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    auto const bytes = even(40);
    CheckedTransfer const first{comm, seed, bytes}, second{comm, mix(seed), bytes};
    auto one = comm.ialltoallv(0, first.transfer());
    // A request can be moved before it is complete.
    auto moved = std::move(one);
    complete(comm, moved);
    first.check();
    moved = comm.ialltoallv(0, second.transfer());
    auto again = std::make_unique<parallax::request_of<C>>(std::move(moved));
    complete(comm, *again);
    second.check();
  }
};

// Check of a busy channel's refusal: while rank 0 waits for its peers, it posts again on the same channel.
struct ABusyChannelIsMisuse {
  // Collective, and waits. Rank 0 is refused before any other begins; then this operation completes, and one more.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if (comm.size() == 1) return;
    auto const all = even(24);
    CheckedTransfer const part{comm, seed, all}, next{comm, mix(seed), all};
    // By `go` the others learn of rank 0's refusal: before it they do not post.
    CheckedTransfer const go{comm, seed, [](int s, int) { return s == 0 ? std::size_t{1} : 0; }};
    if (comm.rank() != 0) exchange(comm, 1, go);
    auto request = comm.ialltoallv(0, part.transfer());
    if (comm.rank() == 0) {
      bool const refused = refuses(parallax::Errc::misuse, [&] { static_cast<void>(comm.ialltoallv(0, next.transfer())); });
      require(refused, "a second operation on a busy channel was not refused as misuse");
      exchange(comm, 1, go);
    }
    complete(comm, request);
    part.check();
    exchange(comm, 0, next);
  }
};

// Check of the all-reduce of a vendor's library, for a communicator that uses one.
struct TheVendorsSum {
  // Collective, and waits. Checks sums of both scalars, or nothing without such an all-reduce.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if constexpr (parallax::VendorAllreduce<C>) {
      if (comm.sum_order() != parallax::SumOrder::vendor) return;
      sum<float>(comm, seed);
      sum<double>(comm, seed);
    }
  }

 private:
  // Sums small integers, exactly in any order, of several lengths; two channels in flight, posted by ranks in different orders.
  template <class T, class C>
  static void sum(C& comm, std::uint64_t seed) {
    auto const value = [&](int rank, std::size_t i) {
      return static_cast<T>(mix(seed, static_cast<std::uint64_t>(rank), i) % 1000);
    };
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{250}, std::size_t{10007}}) {
      std::vector<T> mine(count), other(count, T{1});
      for (std::size_t i = 0; i < count; ++i) mine[i] = value(comm.rank(), i);
      bool const swapped = comm.rank() % 2;
      auto first =
          swapped ? comm.iallreduce(5, other.data(), other.data(), count) : comm.iallreduce(4, mine.data(), mine.data(), count);
      auto second =
          swapped ? comm.iallreduce(4, mine.data(), mine.data(), count) : comm.iallreduce(5, other.data(), other.data(), count);
      complete(comm, first);
      complete(comm, second);
      for (std::size_t i = 0; i < count; ++i) {
        T expected{0};
        for (int r = 0; r < comm.size(); ++r) expected += value(r, i);
        require(mine[i] == expected && other[i] == static_cast<T>(comm.size()),
                "element " + std::to_string(i) + " of a sum is wrong");
      }
    }
  }
};

// Check of loans of memory: every rank adds its number to each peer's loan, in turns, and finds all ranks' sums at the end.
struct LentMemoryIsReached {
  // Collective, and waits. Lends ten times, or does nothing if some rank cannot lend to this one.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if constexpr (parallax::LendsMemory<C>) {
      for (int rank = 0; rank < comm.size(); ++rank)
        if (!comm.lends(comm.rank(), rank)) return;
      for (std::uint64_t i = 0; i < 10; ++i) in_turns(comm, mix(seed, i));
    }
  }

 private:
  // A rank's word to the others about its loan: the place of its memory, and the loan's number.
  struct LoanNotice {
    parallax::Place place;
    std::uint64_t number;
  };

  // Collective, and waits. Runs one loan of each rank, of a random length and place, to all others one after the other.
  template <class C>
  static void in_turns(C& comm, std::uint64_t seed) {
    auto const ranks = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
    std::size_t const words = 1 + Dice{mix(seed)}.below(3000), first = Dice{mix(seed, 1u)}.below(9);
    std::vector<std::uint64_t> own(first + words);
    std::uint64_t* memory = own.data() + first;
    // Memory out of all peers' reach is replaced by the communicator's.
    if (comm.size() > 1 && !comm.place_of(memory).id)
      memory = reinterpret_cast<std::uint64_t*>(comm.window(0, (first + words) * sizeof(std::uint64_t))) + first;
    std::fill_n(memory, words, seed);
    LoanNotice const mine{comm.place_of(memory), comm.lend(0)};
    require(comm.size() == 1 || mine.place.id != 0, "a window cannot be reached");
    std::vector<LoanNotice> const all = told_to_all(comm, mine);
    for (std::size_t turn = 0; turn < ranks; ++turn) {
      // In each turn a rank's memory is written by one other rank alone.
      std::size_t const peer = (self + turn) % ranks;
      if (peer == self) {
        for (std::size_t k = 0; k < words; ++k) memory[k] += self + k;
      } else {
        require(comm.hold(0, static_cast<int>(peer), all[peer].number), "an open loan cannot be held");
        auto* const theirs = reinterpret_cast<std::uint64_t*>(comm.address_of(all[peer].place));
        for (std::size_t k = 0; k < words; ++k) theirs[k] += self + k;
        comm.release(0, static_cast<int>(peer));
      }
      // A barrier: nobody begins the next turn before all have ended this one.
      exchange(comm, 0, CheckedTransfer{comm, mix(seed, turn), even(1)});
    }
    comm.reclaim(0);
    for (std::size_t k = 0; k < words; ++k)
      require(memory[k] == seed + ranks * (ranks - 1) / 2 + ranks * k,
              "word " + std::to_string(k) + " of " + std::to_string(words) + " that were lent is wrong");
  }
};

// Check of reading in place: every rank tells all others the place of its words, reads theirs, and changes its own as soon as
// all have read. One of them has read before, at a place told to it alone.
struct WordsAreReadInTurns {
  // Collective, and waits. Runs a hundred turns, or nothing if ranks do not read in place.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if constexpr (parallax::ReadsInPlace<C>) {
      if (!comm.reads_in_place()) return;
      auto const ranks = static_cast<std::size_t>(comm.size());
      std::vector<std::uint64_t> own(1000);
      for (std::uint64_t turn = 0; turn < 100; ++turn) {
        for (std::size_t k = 0; k < own.size(); ++k) own[k] = mix(seed, turn, comm.rank(), k);
        std::vector<std::uint64_t*> const all = told_to_all(comm, own.data());
        if (comm.rank() == 0) {
          comm.begin_reading();
          comm.end_reading();
        }
        comm.begin_reading();
        for (std::size_t r = 0; r < ranks; ++r)
          for (std::size_t k = 0; k < own.size(); ++k)
            require(all[r][k] == mix(seed, turn, r, k), "rank " + std::to_string(r) + " has changed what is being read");
        comm.end_reading();
        await_turns(comm);
      }
    }
  }
};

}  // namespace parallax_conformance
