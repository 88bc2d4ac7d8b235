// The parts of the suites of communicators: random exchanges of known bytes, and their Failure. Every suite of communicators
// includes it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/comm/communicator_checks.hpp"

namespace parallax_conformance::inline v0_2 {

// Error of a suite about a communicator's fault: one sentence, with the check, the seed and the rank.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws a Failure of this sentence unless `holds`.
inline void require(bool holds, std::string const& sentence) {
  if (!holds) throw Failure{sentence};
}

// Returns a well-mixed function of a number: the step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Seeds are made by it,
// the same on all ranks.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
// Returns a mix of several numbers, another one in another order.
template <class... More>
std::uint64_t mix(std::uint64_t first, std::uint64_t second, More... more) {
  return mix(mix(first) ^ second, static_cast<std::uint64_t>(more)...);
}

// Random numbers, a function of the seed: ranks with the same seed draw the same.
class Dice {
 public:
  // Draws from this seed on.
  explicit Dice(std::uint64_t seed) : state_{seed} {}
  // Returns the next number, in [0, limit); `limit` is positive. Not quite even, which does not matter here.
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>((state_ = mix(state_)) % limit); }
  // Returns the numbers 0 … count - 1 in a random order.
  std::vector<int> shuffled(int count) {
    std::vector<int> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    // From the last to the first: exchanged with one of those before it, or with itself (R. A. Fisher and F. Yates).
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    return order;
  }

 private:
  std::uint64_t state_;
};

// Content of bytes between blocks, never to change.
inline constexpr std::byte gap{0xA5};
// Returns, by rank, the places of blocks in `memory`, in random order with gaps between. `bytes(rank)`: the bytes of one.
template <class Bytes>
std::vector<parallax::ByteRange> laid_out(int ranks, Dice& dice, std::vector<std::byte>& memory, Bytes const& bytes) {
  std::vector<parallax::ByteRange> blocks(static_cast<std::size_t>(ranks));
  std::size_t end = dice.below(9);
  for (int const rank : dice.shuffled(ranks)) {
    blocks[static_cast<std::size_t>(rank)] = {end, bytes(rank)};
    end += bytes(rank) + dice.below(9);
  }
  memory.assign(end, gap);
  return blocks;
}
// Fills a block of `bytes` bytes with words, the first of them `word`. Words, not bytes, for these tests run under sanitizers.
inline void fill(std::byte* block, std::size_t bytes, std::uint64_t word) {
  for (std::size_t i = 0; i < bytes; i += sizeof word, word += 0x9e3779b97f4a7c15u)
    std::memcpy(block + i, &word, std::min(sizeof word, bytes - i));
}
// Returns a function of (source, target), for a transfer of blocks that all have `bytes` bytes.
inline auto even(std::size_t bytes) {
  return [bytes](int, int) { return bytes; };
}

// One rank's part of one operation. Sizes and contents of all blocks are functions of (seed, source, target), so every rank
// knows its arrivals. Blocks lie in random order with gaps between them; the gaps must not change. Owns all memory; the
// transfer refers to it.
class CheckedTransfer {
 public:
  // Makes the part of this communicator's rank. `bytes(source, target)` is the size of a block in bytes, the same on both.
  template <class C, class Bytes>
  CheckedTransfer(C const& comm, std::uint64_t seed, Bytes const& bytes) : rank_{comm.rank()} {
    // The places of blocks are this rank's own; sizes and contents are common.
    Dice dice{mix(seed, static_cast<std::uint64_t>(rank_))};
    to_ = laid_out(comm.size(), dice, send_, [&](int target) { return bytes(rank_, target); });
    from_ = laid_out(comm.size(), dice, receive_, [&](int source) { return bytes(source, rank_); });
    // Gaps are to stay as they are.
    expected_ = receive_;
    for (std::size_t peer = 0; peer < to_.size(); ++peer) {
      fill(send_.data() + to_[peer].offset, to_[peer].bytes, mix(seed, static_cast<std::uint64_t>(rank_), peer));
      fill(expected_.data() + from_[peer].offset, from_[peer].bytes, mix(seed, peer, rank_));
    }
    sent_ = send_;
  }
  CheckedTransfer(CheckedTransfer const&) = delete;
  CheckedTransfer& operator=(CheckedTransfer const&) = delete;

  // Returns the transfer to be posted, once. Refers to the memory of this object, which must outlive the request.
  parallax::Transfer transfer() const { return {send_.data(), to_, const_cast<std::byte*>(receive_.data()), from_}; }

  // Throws a Failure unless every block arrived and nothing else changed. Called once the request is complete.
  void check() const {
    // The first wrong byte is enough.
    if (receive_ != expected_) {
      auto const at =
          static_cast<std::size_t>(std::mismatch(receive_.begin(), receive_.end(), expected_.begin()).first - receive_.begin());
      require(false, "rank " + std::to_string(rank_) + ": " + place(at) + " is " +
                         std::to_string(std::to_integer<int>(receive_[at])) + ", expected " +
                         std::to_string(std::to_integer<int>(expected_[at])));
    }
    require(send_ == sent_, "rank " + std::to_string(rank_) + ": the memory that is sent from was changed");
  }

 private:
  // Returns, in words, the block around byte `at` of the received memory.
  std::string place(std::size_t at) const {
    for (std::size_t source = 0; source < from_.size(); ++source)
      if (at >= from_[source].offset && at < from_[source].offset + from_[source].bytes)
        return "byte " + std::to_string(at - from_[source].offset) + " of " + std::to_string(from_[source].bytes) +
               " from rank " + std::to_string(source);
    return "byte " + std::to_string(at) + ", which lies outside all blocks,";
  }

  int rank_;
  // Places of blocks, to each rank and from each.
  std::vector<parallax::ByteRange> to_, from_;
  // Sent bytes, arrivals, expected arrivals, and bytes to be sent: the last two to compare with.
  std::vector<std::byte> send_, receive_, expected_, sent_;
};

// Waits for a request. Throws its Error, after an abort of the communicator by it, and a Failure if it does not stay complete.
template <class C, class R>
void complete(C& comm, R& request) {
  try {
    parallax::wait(comm, request, "a conformance check");
  } catch (parallax::Error const& error) {
    // Peers wait for this rank in vain.
    comm.abort(error);
    throw;
  }
  require(request.test(), "a request that was complete is not any more");
  require(request.waiting_for() == -1, "a complete request waits for rank " + std::to_string(request.waiting_for()));
}

// Collective, and waits. Tells every rank this rank's value, and returns all ranks' values, in their order. `none` stays where
// no value arrives.
template <class C, class T>
std::vector<T> told_to_all(C& comm, T const& own, T const& none = {}) {
  auto const ranks = static_cast<std::size_t>(comm.size());
  std::vector<T> all(ranks, none);
  std::vector<parallax::ByteRange> const to(ranks, {0, sizeof own});
  std::vector<parallax::ByteRange> from(ranks);
  for (std::size_t r = 0; r < ranks; ++r) from[r] = {r * sizeof own, sizeof own};
  auto request =
      comm.ialltoallv(0, {reinterpret_cast<std::byte const*>(&own), to, reinterpret_cast<std::byte*>(all.data()), from});
  complete(comm, request);
  return all;
}
// Collective, and waits. Returns once all ranks have read at the places told. Throws a Failure past the deadline.
template <class C>
void await_turns(C& comm) {
  comm.take_turn();
  for (parallax::Patience<C> patience{comm}; comm.unread() >= 0;)
    require(patience.pause(), "rank " + std::to_string(comm.unread()) + " does not end its turn");
}

// Returns true if `body` throws an Error of this code; false for another Error, or none.
template <class Body>
bool refuses(parallax::Errc code, Body const& body) {
  try {
    body();
  } catch (parallax::Error const& error) {
    return error.code() == code;
  }
  return false;
}

// Collective, and waits. Runs one whole operation on a channel: posts it, waits for it, and checks it. Throws Error, Failure.
template <class C>
void exchange(C& comm, int channel, CheckedTransfer const& part) {
  auto request = comm.ialltoallv(channel, part.transfer());
  complete(comm, request);
  part.check();
}

// Runs `body`, exchanges. In the first, two ranks disagree on a size, and one of the two sizes is 0. An Error about it, or
// about a wait in vain, is right; other bytes, or another Error, are thrown on, bytes as a Failure with a communicator's duty.
template <class Body>
void require_numbered_blocks(Body const& body) {
  try {
    body();
  } catch (parallax::Error const& error) {
    if (error.code() != parallax::Errc::mismatch && error.code() != parallax::Errc::timeout) throw;
  } catch (Failure const& failure) {
    throw Failure{failure.what() +
                  std::string{": every block must carry the number of its operation on the channel, lest it "
                              "be taken for one of another operation; operations with empty blocks count, too"}};
  }
}

// Returns a block's size in bytes, from nothing to some kilobytes; powers of ten often, for chunks of such a size end there.
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

// Collective, and waits; all ranks give one seed. Runs one whole operation of ragged sizes on a channel. Throws Error, Failure.
template <class C>
void exchange_ragged(C& comm, int channel, std::uint64_t seed) {
  exchange(comm, channel, CheckedTransfer{comm, seed, [&](int source, int target) { return ragged(seed, source, target); }});
}

// Runs body(comm) on every rank of a fresh communicator by the model. About any other type one assertion names its lack.
template <class Model, class Body>
void on_every_rank(Model const& model, std::chrono::nanoseconds deadline, Body const& body) {
  model.run(deadline, [&](auto& comm) {
    using C = std::remove_reference_t<decltype(comm)>;
    if constexpr (parallax::Communicator<C>) body(comm);
    else static_assert(sizeof(parallax::detail::check_communicator<C>) > 0);
  });
}

// Returns the number of ranks, known to the model alone: runs it once.
template <class Model>
int ranks_of(Model const& model) {
  int size = 0;
  on_every_rank(model, std::chrono::seconds{60}, [&](auto& comm) {
    if (comm.rank() == 0) size = comm.size();
  });
  return size;
}

// Runs one check on all ranks of a fresh communicator: body(comm, seed) on each. Waits for all. Throws a Failure with the name
// of the check and the seed.
template <class Model, class Body>
void check(Model const& model, std::uint64_t seed, std::chrono::nanoseconds deadline, std::string const& name,
           Body const& body) {
  try {
    on_every_rank(model, deadline, [&](auto& comm) { body(comm, seed); });
  } catch (std::exception const& error) {
    throw Failure{"communicator conformance, «" + name + "» [seed " + std::to_string(seed) + "]: " + error.what()};
  }
}

}  // namespace parallax_conformance
