// The suite that every communicator passes, ours and yours: what the concept promises, checked on all ranks at once.
//
// A model says in a few lines how to run a body on every rank of a fresh communicator, which must use this deadline:
//   struct MyRanks {
//     int ranks;
//     template <class Body>
//     void run(std::chrono::nanoseconds deadline, Body const& body) const { /* body(comm) on every rank; rethrow */ }
//   };
// `check_communicator(MyRanks{4})` checks exchanges. `check_failures(MyRanks{4})` checks what happens when ranks
// disagree, abort or stay away; it is for communicators whose `abort` leaves the process alive. Both throw a Failure
// that names the check and the seed. No test framework is needed. Where the process already is one rank of several
// (MPI), `run` constructs a communicator and calls the body once, and every rank calls the suite with equal arguments.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/comm/lent_hop.hpp"

namespace parallax_conformance {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool holds, std::string const& sentence) {
  if (!holds) throw Failure{sentence};
}

inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
template <class... More>
std::uint64_t mix(std::uint64_t first, std::uint64_t second, More... more) {
  return mix(mix(first) ^ second, static_cast<std::uint64_t>(more)...);
}

// Random numbers that are a function of the seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_{seed} {}
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>((state_ = mix(state_)) % limit); }
  std::vector<int> shuffled(int count) {
    std::vector<int> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    return order;
  }

 private:
  std::uint64_t state_;
};

// One rank's part of one operation. Sizes and contents of all blocks are functions of (seed, source, target), so every
// rank knows what it must receive. Blocks lie in random order with gaps between them; the gaps must not change.
class Exchange {
 public:
  // `bytes(source, target)` is the size of a block.
  template <class Bytes>
  Exchange(std::uint64_t seed, int rank, int size, Bytes const& bytes) : seed_{seed}, rank_{rank} {
    Dice dice{mix(seed, static_cast<std::uint64_t>(rank))};
    auto const lay_out = [&](std::vector<parallax::ByteRange>& blocks, std::vector<std::byte>& memory,
                             auto const& bytes_of) {
      blocks.resize(static_cast<std::size_t>(size));
      std::size_t end = dice.below(9);
      for (int const peer : dice.shuffled(size)) {
        blocks[static_cast<std::size_t>(peer)] = {end, bytes_of(peer)};
        end += bytes_of(peer) + dice.below(9);
      }
      memory.assign(end, gap);
    };
    lay_out(to_, send_, [&](int target) { return bytes(rank, target); });
    lay_out(from_, receive_, [&](int source) { return bytes(source, rank); });
    expected_ = receive_;
    for (int peer = 0; peer < size; ++peer) {
      fill(send_.data() + to_[static_cast<std::size_t>(peer)].offset, to_[static_cast<std::size_t>(peer)].bytes, rank,
           peer);
      fill(expected_.data() + from_[static_cast<std::size_t>(peer)].offset, from_[static_cast<std::size_t>(peer)].bytes,
           peer, rank);
    }
    sent_ = send_;
  }
  Exchange(Exchange const&) = delete;
  Exchange& operator=(Exchange const&) = delete;

  parallax::Transfer transfer() const { return {send_.data(), to_, const_cast<std::byte*>(receive_.data()), from_}; }

  // Throws unless every block arrived and nothing else changed.
  void check() const {
    if (receive_ != expected_) {
      auto const at = static_cast<std::size_t>(
          std::mismatch(receive_.begin(), receive_.end(), expected_.begin()).first - receive_.begin());
      require(false, "rank " + std::to_string(rank_) + ": " + place(at) + " is " +
                         std::to_string(std::to_integer<int>(receive_[at])) + ", expected " +
                         std::to_string(std::to_integer<int>(expected_[at])));
    }
    require(send_ == sent_, "rank " + std::to_string(rank_) + ": the memory that is sent from was changed");
  }

 private:
  static constexpr std::byte gap{0xA5};

  // Words, not bytes, for these tests run under sanitizers.
  void fill(std::byte* block, std::size_t bytes, int source, int target) const {
    std::uint64_t word = mix(seed_, static_cast<std::uint64_t>(source), target);
    for (std::size_t i = 0; i < bytes; i += sizeof word, word += 0x9e3779b97f4a7c15u)
      std::memcpy(block + i, &word, std::min(sizeof word, bytes - i));
  }
  std::string place(std::size_t at) const {
    for (std::size_t source = 0; source < from_.size(); ++source)
      if (at >= from_[source].offset && at < from_[source].offset + from_[source].bytes)
        return "byte " + std::to_string(at - from_[source].offset) + " of " + std::to_string(from_[source].bytes) +
               " from rank " + std::to_string(source);
    return "byte " + std::to_string(at) + ", which lies outside all blocks,";
  }

  std::uint64_t seed_;
  int rank_;
  std::vector<parallax::ByteRange> to_, from_;
  std::vector<std::byte> send_, receive_, expected_, sent_;
};

// Waits, aborting the communicator should that fail, and checks that a request that is complete stays so.
template <class C, class R>
void complete(C& comm, R& request) {
  try {
    parallax::wait(comm, request, "a conformance check");
  } catch (parallax::Error const& error) {
    comm.abort(error);
    throw;
  }
  require(request.test(), "a request that was complete is not any more");
  require(request.waiting_for() == -1, "a complete request waits for rank " + std::to_string(request.waiting_for()));
}

template <class C>
void exchange(C& comm, int channel, Exchange const& part) {
  auto request = comm.ialltoallv(channel, part.transfer());
  complete(comm, request);
  part.check();
}

// A size between nothing and some kilobytes; powers of ten often, for they are where chunks of such a size end.
inline std::size_t ragged(std::uint64_t seed, int source, int target) {
  Dice dice{mix(seed, 77u, source, target)};
  switch (dice.below(8)) {
    case 0:
    case 1: return 0;
    case 2: return 1;
    case 3: return 8;
    case 4: return 1000;
    case 5: return 1000 * dice.below(4);
    case 6: return dice.below(300);
    default: return dice.below(5000);
  }
}

template <class C>
void exchange_ragged(C& comm, int channel, std::uint64_t seed) {
  Exchange const part{seed, comm.rank(), comm.size(),
                      [&](int source, int target) { return ragged(seed, source, target); }};
  exchange(comm, channel, part);
}

// One check on all ranks of a fresh communicator.
template <class Model, class Body>
void check(Model const& model, std::uint64_t seed, std::chrono::nanoseconds deadline, std::string const& name,
           Body const& body) {
  try {
    model.run(deadline, [&](auto& comm) { body(comm, seed); });
  } catch (std::exception const& error) {
    throw Failure{"communicator conformance, «" + name + "» [seed " + std::to_string(seed) + "]: " + error.what()};
  }
}

// ---- the checks of exchanges ----

struct EveryRankIsThereOnce {
  template <class C>
  void operator()(C& comm, std::uint64_t) const {
    auto const ranks = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
    require(comm.size() >= 1 && comm.rank() >= 0 && self < ranks, "rank and size make no sense");
    require(std::chrono::nanoseconds{comm.deadline()}.count() > 0, "the deadline is not positive");
    int const mine = comm.rank();
    std::vector<int> all(ranks, -1);
    std::vector<parallax::ByteRange> const to(ranks, {0, sizeof mine});
    std::vector<parallax::ByteRange> from(ranks);
    for (std::size_t r = 0; r < ranks; ++r) from[r] = {r * sizeof mine, sizeof mine};
    auto request = comm.ialltoallv(
        0, {reinterpret_cast<std::byte const*>(&mine), to, reinterpret_cast<std::byte*>(all.data()), from});
    complete(comm, request);
    for (std::size_t r = 0; r < ranks; ++r)
      require(all[r] == static_cast<int>(r), "rank " + std::to_string(r) + " calls itself " + std::to_string(all[r]));
  }
};

struct RaggedBlocks {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    for (std::uint64_t i = 0; i < 60; ++i) exchange_ragged(comm, 0, mix(seed, i));
  }
};

struct NothingAtAll {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    for (std::uint64_t i = 0; i < 5; ++i)
      exchange(comm, 0, Exchange{mix(seed, i), comm.rank(), comm.size(), [](int, int) { return std::size_t{0}; }});
    exchange_ragged(comm, 0, seed);
    std::vector<parallax::ByteRange> const none(static_cast<std::size_t>(comm.size()));
    auto request = comm.ialltoallv(0, {nullptr, none, nullptr, none});
    complete(comm, request);
  }
};

struct OnePairOrOnlyOneself {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    exchange(comm, 0,
             Exchange{seed, comm.rank(), comm.size(), [](int s, int t) { return s == t ? std::size_t{777} : 0; }});
    for (int source = 0; source < comm.size(); ++source) {
      int const target = (source + 1) % comm.size();
      auto const bytes = [&](int s, int t) { return s == source && t == target ? std::size_t{333} : 0; };
      exchange(comm, 0, Exchange{mix(seed, static_cast<std::uint64_t>(source)), comm.rank(), comm.size(), bytes});
    }
  }
};

// An allgatherv: every rank sends one block to all, and all read the same memory.
struct OneBlockForAll {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    auto const ranks = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
    for (std::uint64_t i = 0; i < 10; ++i) {
      auto const bytes = [&](std::size_t r) { return ragged(mix(seed, i), static_cast<int>(r), 0); };
      auto const value = [&](std::size_t r, std::size_t k) { return static_cast<std::byte>(mix(seed, i, r, k)); };
      std::vector<std::byte> mine(bytes(self));
      for (std::size_t k = 0; k < mine.size(); ++k) mine[k] = value(self, k);
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

// Equal sizes, so that only the contents tell one operation from the next; ranks are late in turn.
struct ManyInARow {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    Dice dice{mix(seed, static_cast<std::uint64_t>(comm.rank()))};
    for (std::uint64_t i = 0; i < 300; ++i) {
      if (dice.below(50) == 0) std::this_thread::sleep_for(std::chrono::microseconds{dice.below(500)});
      exchange(comm, 2, Exchange{mix(seed, i), comm.rank(), comm.size(), [](int, int) { return std::size_t{16}; }});
    }
  }
};

// Every rank posts on the channels in an order of its own, tests them in another, and completes them as they come.
struct ChannelsAreIndependent {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    for (std::uint64_t round = 0; round < 10; ++round) {
      std::deque<Exchange> parts;
      for (int channel = 0; channel < parallax::channels; ++channel) {
        std::uint64_t const own = mix(seed, round, channel);
        parts.emplace_back(own, comm.rank(), comm.size(),
                           [&](int s, int t) { return channel % 2 ? ragged(own, s, t) : std::size_t{64}; });
      }
      Dice dice{mix(seed, round, comm.rank())};
      using Request = parallax::request_of<C>;
      std::vector<std::pair<int, Request>> flying;
      for (int const channel : dice.shuffled(parallax::channels))
        flying.emplace_back(channel, comm.ialltoallv(channel, parts[static_cast<std::size_t>(channel)].transfer()));
      for (int const other : dice.shuffled(parallax::channels))
        std::swap(flying[0], flying[static_cast<std::size_t>(other)]);
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

// The late rank posts only when all others have named it.
struct ALateRankIsNamed {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    for (int late = 0; late < comm.size() && comm.size() > 1; ++late) {
      Exchange const part{mix(seed, static_cast<std::uint64_t>(late)), comm.rank(), comm.size(),
                          [](int, int) { return std::size_t{100}; }};
      Exchange const go{seed, comm.rank(), comm.size(), [&](int, int t) { return t == late ? std::size_t{1} : 0; }};
      if (comm.rank() == late) {
        exchange(comm, 1, go);
        exchange(comm, 0, part);
        continue;
      }
      auto request = comm.ialltoallv(0, part.transfer());
      parallax::Patience<C> patience{comm};
      while (request.waiting_for() != late) {
        require(!request.test(),
                "an exchange was complete although rank " + std::to_string(late) + " had not begun it");
        require(patience.pause(), "the late rank " + std::to_string(late) + " was not named by waiting_for");
      }
      exchange(comm, 1, go);
      complete(comm, request);
      part.check();
    }
  }
};

struct BigBlocks {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    auto const ranks = static_cast<std::size_t>(comm.size());
    std::size_t const most = std::max<std::size_t>(10000, (std::size_t{4} << 20) / (ranks * ranks));
    auto const bytes = [&](int source, int target) { return most - ragged(seed, source, target); };
    exchange(comm, 0, Exchange{seed, comm.rank(), comm.size(), bytes});
  }
};

struct RequestsMove {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    auto const bytes = [](int, int) { return std::size_t{40}; };
    Exchange const first{seed, comm.rank(), comm.size(), bytes}, second{mix(seed), comm.rank(), comm.size(), bytes};
    auto one = comm.ialltoallv(0, first.transfer());
    auto moved = std::move(one);
    complete(comm, moved);
    first.check();
    moved = comm.ialltoallv(0, second.transfer());
    auto again = std::make_unique<parallax::request_of<C>>(std::move(moved));
    complete(comm, *again);
    second.check();
  }
};

// While rank 0 waits for its peers, it posts again on the same channel.
struct ABusyChannelIsMisuse {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if (comm.size() == 1) return;
    auto const all = [](int, int) { return std::size_t{24}; };
    Exchange const part{seed, comm.rank(), comm.size(), all}, next{mix(seed), comm.rank(), comm.size(), all};
    Exchange const go{seed, comm.rank(), comm.size(), [](int s, int) { return s == 0 ? std::size_t{1} : 0; }};
    if (comm.rank() != 0) exchange(comm, 1, go);
    auto request = comm.ialltoallv(0, part.transfer());
    if (comm.rank() == 0) {
      bool refused = false;
      try {
        [[maybe_unused]] auto const second = comm.ialltoallv(0, next.transfer());
      } catch (parallax::Error const& error) {
        refused = error.code() == parallax::Errc::misuse;
      }
      require(refused, "a second operation on a busy channel was not refused as misuse");
      exchange(comm, 1, go);
    }
    complete(comm, request);
    part.check();
    exchange(comm, 0, next);
  }
};

struct TheVendorsSum {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if constexpr (parallax::VendorAllreduce<C>) {
      if (comm.sum_order() != parallax::SumOrder::vendor) return;
      sum<float>(comm, seed);
      sum<double>(comm, seed);
    }
  }

 private:
  // Small integers, whose sum is exact in any order; two channels in flight.
  template <class T, class C>
  static void sum(C& comm, std::uint64_t seed) {
    auto const value = [&](int rank, std::size_t i) {
      return static_cast<T>(mix(seed, static_cast<std::uint64_t>(rank), i) % 1000);
    };
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{250}, std::size_t{10007}}) {
      std::vector<T> mine(count), other(count, T{1});
      for (std::size_t i = 0; i < count; ++i) mine[i] = value(comm.rank(), i);
      bool const swapped = comm.rank() % 2;
      auto first = swapped ? comm.iallreduce(5, other.data(), other.data(), count)
                           : comm.iallreduce(4, mine.data(), mine.data(), count);
      auto second = swapped ? comm.iallreduce(4, mine.data(), mine.data(), count)
                            : comm.iallreduce(5, other.data(), other.data(), count);
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

// Every rank adds its number to what each peer lends, in turns, and finds what all have done when they are done.
struct LentMemoryIsReached {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if constexpr (parallax::LendsMemory<C>) {
      for (int rank = 0; rank < comm.size(); ++rank)
        if (!comm.lends(comm.rank(), rank)) return;
      for (std::uint64_t i = 0; i < 10; ++i) in_turns(comm, mix(seed, i));
    }
  }

 private:
  struct Lent {
    parallax::Place place;
    std::uint64_t number;
  };

  template <class C>
  static void in_turns(C& comm, std::uint64_t seed) {
    auto const ranks = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
    std::size_t const words = 1 + Dice{mix(seed)}.below(3000), first = Dice{mix(seed, 1u)}.below(9);
    std::vector<std::uint64_t> own(first + words);
    std::uint64_t* memory = own.data() + first;
    if (comm.size() > 1 && !comm.place_of(memory).id)
      memory = reinterpret_cast<std::uint64_t*>(comm.window(0, (first + words) * sizeof(std::uint64_t))) + first;
    std::fill_n(memory, words, seed);
    Lent const mine{comm.place_of(memory), comm.lend(0)};
    require(comm.size() == 1 || mine.place.id != 0, "a window cannot be reached");
    std::vector<Lent> all(ranks);
    std::vector<parallax::ByteRange> const to(ranks, {0, sizeof mine});
    std::vector<parallax::ByteRange> from(ranks);
    for (std::size_t r = 0; r < ranks; ++r) from[r] = {r * sizeof mine, sizeof mine};
    auto request = comm.ialltoallv(
        0, {reinterpret_cast<std::byte const*>(&mine), to, reinterpret_cast<std::byte*>(all.data()), from});
    complete(comm, request);
    for (std::size_t turn = 0; turn < ranks; ++turn) {
      std::size_t const peer = (self + turn) % ranks;
      if (peer == self) {
        for (std::size_t k = 0; k < words; ++k) memory[k] += self + k;
      } else {
        require(comm.hold(0, static_cast<int>(peer), all[peer].number), "an open loan cannot be held");
        auto* const theirs = reinterpret_cast<std::uint64_t*>(comm.address_of(all[peer].place));
        for (std::size_t k = 0; k < words; ++k) theirs[k] += self + k;
        comm.release(0, static_cast<int>(peer));
      }
      exchange(comm, 0, Exchange{mix(seed, turn), comm.rank(), comm.size(), [](int, int) { return std::size_t{1}; }});
    }
    comm.reclaim(0);
    for (std::size_t k = 0; k < words; ++k)
      require(memory[k] == seed + ranks * (ranks - 1) / 2 + ranks * k,
              "word " + std::to_string(k) + " of " + std::to_string(words) + " that were lent is wrong");
  }
};

// Checks that exchanges carry what they must, on a model as described above.
template <class Model>
void check_communicator(Model const& model, std::uint64_t seed = 1) {
  constexpr std::chrono::seconds deadline{60};
  check(model, seed, deadline, "every rank is there once", EveryRankIsThereOnce{});
  check(model, seed, deadline, "ragged blocks with gaps arrive where they belong", RaggedBlocks{});
  check(model, seed, deadline, "an exchange of nothing completes", NothingAtAll{});
  check(model, seed, deadline, "one pair, or every rank with itself", OnePairOrOnlyOneself{});
  check(model, seed, deadline, "one block is read by all", OneBlockForAll{});
  check(model, seed, deadline, "many operations in a row keep their order", ManyInARow{});
  check(model, seed, deadline, "channels are independent", ChannelsAreIndependent{});
  check(model, seed, deadline, "a late rank delays the others and is named", ALateRankIsNamed{});
  check(model, seed, deadline, "big blocks", BigBlocks{});
  check(model, seed, deadline, "requests move", RequestsMove{});
  check(model, seed, deadline, "a second operation on a busy channel is misuse", ABusyChannelIsMisuse{});
  check(model, seed, deadline, "the vendor's all-reduce sums", TheVendorsSum{});
  check(model, seed, deadline, "lent memory is reached by peers", LentMemoryIsReached{});
}

// ---- the checks of failures ----

// Runs `body` and returns the Error that it throws; fails if there is none.
template <class Body>
parallax::Error error_of(int rank, Body const& body) {
  try {
    body();
  } catch (parallax::Error const& error) {
    return error;
  }
  throw Failure{"rank " + std::to_string(rank) + " got no error"};
}

inline void require_same(int rank, parallax::Error const& seen, parallax::Error const& expected) {
  require(seen.code() == expected.code() && seen.rank() == expected.rank() &&
              seen.operation() == expected.operation() && seen.variable() == expected.variable() &&
              seen.detail() == expected.detail(),
          "rank " + std::to_string(rank) + " got «" + seen.what() + "» instead of «" + expected.what() + "»");
}

// Rank 0 sends `sent` bytes where the last rank expects `expected`. The last rank is told so, and tells the others.
struct DifferentSizesAreAMismatch {
  std::size_t sent, expected;

  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if (comm.size() == 1) return;
    int const source = 0, target = comm.size() - 1;
    Exchange const part{seed, comm.rank(), comm.size(), [&](int s, int t) {
                          return s != source || t != target ? std::size_t{10} : comm.rank() == source ? sent : expected;
                        }};
    Exchange const never{seed, comm.rank(), comm.size(), [](int, int) { return std::size_t{1}; }};
    auto const error = error_of(comm.rank(), [&] {
      exchange(comm, 0, part);
      exchange(comm, 1, never);
    });
    std::string const what = "rank " + std::to_string(comm.rank()) + " got «" + error.what() + "»";
    require(error.code() == parallax::Errc::mismatch, what + ", no mismatch");
    require(error.rank() == source, what + ", which does not blame the sender");
    require(error.detail().find(std::to_string(expected)) != std::string::npos,
            what + ", which does not name the size");
  }
};

// One of the two sizes is 0: an error is best; what must not happen is that a block is taken for another operation's.
struct ABlockOfNothingIsNotConfused {
  std::size_t sent, expected;

  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    int const source = 0, target = comm.size() - 1;
    Exchange const part{seed, comm.rank(), comm.size(), [&](int s, int t) {
                          return s != source || t != target ? std::size_t{0} : comm.rank() == source ? sent : expected;
                        }};
    Exchange const next{mix(seed), comm.rank(), comm.size(), [&](int, int) { return std::max(sent, expected); }};
    try {
      exchange(comm, 0, part);
      exchange(comm, 0, next);
    } catch (parallax::Error const& error) {
      require(error.code() == parallax::Errc::mismatch || error.code() == parallax::Errc::timeout, error.what());
    }
  }
};

// One rank aborts while the others wait for it: all get the reason, now and in every later operation.
struct AnAbortWakesAll {
  int aborter;

  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    parallax::Error const reason{parallax::Errc::user_exception, aborter, "step", "words", "the reason"};
    auto const bytes = [](int, int) { return std::size_t{32}; };
    Exchange const part{seed, comm.rank(), comm.size(), bytes}, other{mix(seed), comm.rank(), comm.size(), bytes};
    if (comm.rank() == aborter) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      comm.abort(reason);
    } else {
      require_same(comm.rank(), error_of(comm.rank(), [&] { exchange(comm, 0, part); }), reason);
    }
    require_same(comm.rank(), error_of(comm.rank(), [&] { exchange(comm, 1, other); }), reason);
    comm.abort(parallax::Error{parallax::Errc::misuse, comm.rank(), "", "", "a later reason"});
    require_same(comm.rank(), error_of(comm.rank(), [&] { exchange(comm, 2, other); }), reason);
  }
};

// A rank stays away longer than the deadline: the others get a timeout that names it, and so does it when it comes.
struct ARankThatStaysAwayIsNamed {
  int missing;

  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    Exchange const part{seed, comm.rank(), comm.size(), [](int, int) { return std::size_t{32}; }};
    if (comm.rank() == missing) std::this_thread::sleep_for(3 * std::chrono::nanoseconds{comm.deadline()});
    auto const begin = std::chrono::steady_clock::now();
    auto const error = error_of(comm.rank(), [&] { exchange(comm, 0, part); });
    std::string const what = "rank " + std::to_string(comm.rank()) + " got «" + error.what() + "»";
    require(error.code() == parallax::Errc::timeout && error.rank() == missing,
            what + ", no timeout that names rank " + std::to_string(missing));
    require(std::chrono::steady_clock::now() - begin < 2 * std::chrono::nanoseconds{comm.deadline()}, what + " late");
  }
};

// Ranks leave, and free their memory, at any moment of an exchange: no peer may touch it any more (sanitizers watch).
struct AbandonedMemoryIsLeftAlone {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    Dice dice{mix(seed, static_cast<std::uint64_t>(comm.rank()))};
    auto const bytes = [](int, int) { return std::size_t{20000}; };
    int const culprit = static_cast<int>(mix(seed) % static_cast<std::uint64_t>(comm.size()));
    try {
      for (std::uint64_t i = 0; i < 4; ++i) {
        auto const part = std::make_unique<Exchange>(mix(seed, i), comm.rank(), comm.size(), bytes);
        auto request = comm.ialltoallv(0, part->transfer());
        for (std::size_t polls = dice.below(30); polls > 0; --polls) request.test();
        if (comm.rank() == culprit && dice.below(3) == 0)
          comm.abort({parallax::Errc::user_exception, culprit, "", "", "leaves"});
        complete(comm, request);
        part->check();
      }
      if (comm.rank() == culprit) comm.abort({parallax::Errc::user_exception, culprit, "", "", "leaves"});
    } catch (parallax::Error const& error) {
      require(error.rank() == culprit, error.what());
    }
  }
};

// Ranks leave, and free what they have lent, while others sum in it (sanitizers watch). Sums that are complete are right.
struct AbandonedLoansAreLeftAlone {
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if constexpr (parallax::LendsMemory<C>) {
      constexpr std::size_t words = 200'000;
      Dice dice{mix(seed, static_cast<std::uint64_t>(comm.rank()))};
      int const culprit = static_cast<int>(mix(seed) % static_cast<std::uint64_t>(comm.size()));
      parallax::Traffic traffic;
      parallax::Topology<C> topology{comm};
      if (!topology.hops()[0].lends) return;  // what is behind a type-erased edge may not be able to
      std::vector<std::size_t> offsets;
      for (int owner = 0; owner <= comm.size(); ++owner) offsets.push_back(parallax::part_begin(words, owner, comm.size()));
      try {
        for (int i = 0; i < 3; ++i) {
          std::vector<float> values(words, 1.0f);
          parallax::LentHop<float, C> sum;
          parallax::Lane<C> lane{topology, 0, traffic};
          sum.start(offsets, words, {values.data(), nullptr, values.data()});
          bool done = false;
          for (std::size_t polls = dice.below(40); polls > 0 && !done; --polls) done = sum.poll(lane, topology.hops()[0]);
          if (comm.rank() == culprit && dice.below(2) == 0)
            comm.abort({parallax::Errc::user_exception, culprit, "", "", "leaves"});
          while (!done) {
            done = sum.poll(lane, topology.hops()[0]);
            std::this_thread::yield();
          }
          require(values[dice.below(words)] == static_cast<float>(comm.size()), "a sum that was complete is wrong");
        }
        if (comm.rank() == culprit) comm.abort({parallax::Errc::user_exception, culprit, "", "", "leaves"});
      } catch (parallax::Error const& error) {
        require(error.rank() == culprit, error.what());
      }
    }
  }
};

// Checks that ranks which disagree, abort or stay away are found out and named, and that nothing hangs.
template <class Model>
void check_failures(Model const& model, std::uint64_t seed = 1) {
  constexpr std::chrono::seconds ample{60};
  constexpr std::chrono::milliseconds brief{400};
  int size = 0;
  model.run(ample, [&](auto& comm) {
    if (comm.rank() == 0) size = comm.size();
  });
  using Sizes = std::pair<std::size_t, std::size_t>;
  for (auto const& [sent, expected] :
       {Sizes{8, 16}, {16, 8}, {1000, 1}, {1, 1000}, {2000, 3000}, {3000, 2000}, {200000, 40}, {40, 200000}})
    check(model, seed, ample, "different sizes are a mismatch", DifferentSizesAreAMismatch{sent, expected});
  for (auto const& [sent, expected] : {Sizes{16, 0}, {0, 16}})
    check(model, seed, brief, "a block of nothing is not confused", ABlockOfNothingIsNotConfused{sent, expected});
  for (int const rank : {0, size - 1}) {
    check(model, seed, ample, "an abort wakes all with its reason", AnAbortWakesAll{rank});
    if (size > 1) check(model, seed, brief, "a rank that stays away is named", ARankThatStaysAwayIsNamed{rank});
  }
  for (std::uint64_t i = 0; i < 40; ++i)
    check(model, mix(seed, i), ample, "abandoned memory is left alone", AbandonedMemoryIsLeftAlone{});
  for (std::uint64_t i = 0; i < 20; ++i)
    check(model, mix(seed, i), ample, "abandoned loans are left alone", AbandonedLoansAreLeftAlone{});
}

}  // namespace parallax_conformance
