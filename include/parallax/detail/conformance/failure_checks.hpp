// The checks of `check_failures` for every rank: ranks that disagree, abort, stay away or leave in the middle of an exchange.
// Each check is an object, called with the communicator and a seed, and throws a Failure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "parallax/detail/conformance/exchange.hpp"
#include "parallax/detail/transfer/lent_hop.hpp"

namespace parallax_conformance::inline v0_2 {

// Runs `body` and returns its Error. Throws a Failure with the rank if there is none.
template <class Body>
parallax::Error error_of(int rank, Body const& body) {
  try {
    body();
  } catch (parallax::Error const& error) {
    return error;
  }
  throw Failure{"rank " + std::to_string(rank) + " got no error"};
}

// Throws a Failure unless the rank has seen the expected Error: equal in all but the report.
inline void require_same(int rank, parallax::Error const& seen, parallax::Error const& expected) {
  require(seen.code() == expected.code() && seen.rank() == expected.rank() && seen.operation() == expected.operation() &&
              seen.variable() == expected.variable() && seen.detail() == expected.detail(),
          "rank " + std::to_string(rank) + " got «" + seen.what() + "» instead of «" + expected.what() + "»");
}

// Returns a rank's sizes of blocks: `others`, but from the first rank to the last `sent` on rank 0, `expected` on other ranks.
template <class C>
auto disputed(C const& comm, std::size_t sent, std::size_t expected, std::size_t others) {
  return [=, here = comm.rank() == 0 ? sent : expected, last = comm.size() - 1](int source, int target) {
    return source == 0 && target == last ? here : others;
  };
}
// Throws a Failure unless the Error seen by a rank is a mismatch with the blame on rank 0 and the size `expected` in its words.
inline void require_mismatch(int rank, parallax::Error const& error, std::size_t expected) {
  std::string const what = "rank " + std::to_string(rank) + " got «" + error.what() + "»";
  require(error.code() == parallax::Errc::mismatch, what + ", no mismatch");
  require(error.rank() == 0, what + ", which does not blame the sender");
  require(error.detail().find(std::to_string(expected)) != std::string::npos, what + ", which does not name the size");
}

// Check of ranks that disagree on a size: rank 0 sends `sent` bytes, and the last rank expects `expected`. The last rank is
// told so, and tells the others.
struct DifferentSizesAreAMismatch {
  std::size_t sent,  // bytes from rank 0
      expected;      // bytes expected by the last rank

  // Collective, and waits. Demands a mismatch with the blame on rank 0 and the size; nothing of a single rank.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if (comm.size() == 1) return;
    CheckedTransfer const part{comm, seed, disputed(comm, sent, expected, 10)};
    // Other ranks wait on another channel until told.
    CheckedTransfer const never{comm, seed, even(1)};
    auto const error = error_of(comm.rank(), [&] {
      exchange(comm, 0, part);
      exchange(comm, 1, never);
    });
    require_mismatch(comm.rank(), error, expected);
  }
};

// Check of a disagreement about sizes, one of them 0: an error is best; a block must never be taken for another operation's.
struct ABlockOfNothingIsNotConfused {
  std::size_t sent,  // bytes from rank 0
      expected;      // bytes expected by the last rank

  // Collective, and waits. Runs the operation with the disputed size, and another one on the same channel.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    CheckedTransfer const part{comm, seed, disputed(comm, sent, expected, 0)};
    CheckedTransfer const next{comm, mix(seed), even(std::max(sent, expected))};
    require_numbered_blocks([&] {
      exchange(comm, 0, part);
      exchange(comm, 0, next);
    });
  }
};

// Check of aborts: one rank aborts while the others wait for it, and all get the reason, now and in every later operation.
struct AnAbortWakesAll {
  // The aborting rank.
  int aborter;

  // Collective, and waits. Demands one Error three times, the last time after an abort for another reason.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    parallax::Error const reason{parallax::Errc::user_exception, aborter, "step", "words", "the reason"};
    auto const bytes = even(32);
    CheckedTransfer const part{comm, seed, bytes}, other{comm, mix(seed), bytes};
    if (comm.rank() == aborter) {
      // By then the others wait.
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
      comm.abort(reason);
    } else {
      require_same(comm.rank(), error_of(comm.rank(), [&] { exchange(comm, 0, part); }), reason);
    }
    // An operation begun after the abort gets the reason, too.
    require_same(comm.rank(), error_of(comm.rank(), [&] { exchange(comm, 1, other); }), reason);
    // A later reason does not replace the first one.
    comm.abort(parallax::Error{parallax::Errc::misuse, comm.rank(), "", "", "a later reason"});
    require_same(comm.rank(), error_of(comm.rank(), [&] { exchange(comm, 2, other); }), reason);
  }
};

// Check of absence: a rank stays away longer than the deadline. The others get a timeout with its number, and so does it when
// it comes.
struct ARankThatStaysAwayIsNamed {
  // The absent rank.
  int missing;

  // Collective, and waits. Demands such a timeout, and not much later than the deadline.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    CheckedTransfer const part{comm, seed, even(32)};
    if (comm.rank() == missing) std::this_thread::sleep_for(3 * std::chrono::nanoseconds{comm.deadline()});
    auto const begin = std::chrono::steady_clock::now();
    auto const error = error_of(comm.rank(), [&] { exchange(comm, 0, part); });
    std::string const what = "rank " + std::to_string(comm.rank()) + " got «" + error.what() + "»";
    require(error.code() == parallax::Errc::timeout && error.rank() == missing,
            what + ", no timeout that names rank " + std::to_string(missing));
    require(std::chrono::steady_clock::now() - begin < 2 * std::chrono::nanoseconds{comm.deadline()}, what + " late");
  }
};

// Runs body(is_culprit, leave) on a rank. The culprit, chosen by the seed, may call leave(), which aborts. Throws a Failure if
// an Error of `body`, which ends there, does not have the culprit's number.
template <class C, class Body>
void with_culprit(C& comm, std::uint64_t seed, Body const& body) {
  int const culprit = static_cast<int>(mix(seed) % static_cast<std::uint64_t>(comm.size()));
  try {
    body(comm.rank() == culprit, [&] { comm.abort({parallax::Errc::user_exception, culprit, "", "", "leaves"}); });
  } catch (parallax::Error const& error) {
    require(error.rank() == culprit, error.what());
  }
}

// Check of memory that goes too early. Ranks leave, and free their memory, at any moment of an exchange: no peer may touch it
// any more (sanitizers watch).
struct AbandonedMemoryIsLeftAlone {
  // Collective, and waits. Runs a few exchanges. The culprit, by the seed, aborts: all then get an Error with its number.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    Dice dice{mix(seed, static_cast<std::uint64_t>(comm.rank()))};
    auto const bytes = even(20000);
    with_culprit(comm, seed, [&](bool is_culprit, auto const& leave) {
      for (std::uint64_t i = 0; i < 4; ++i) {
        // Each operation has memory of its own, gone after an error.
        auto const part = std::make_unique<CheckedTransfer>(comm, mix(seed, i), bytes);
        auto request = comm.ialltoallv(0, part->transfer());
        // So the culprit leaves at different moments of an operation.
        for (std::size_t polls = dice.below(30); polls > 0; --polls) request.test();
        if (is_culprit && dice.below(3) == 0) leave();
        complete(comm, request);
        part->check();
      }
      if (is_culprit) leave();
    });
  }
};

// Check of ranks that leave, and free words whose place they have told others, while these read them (sanitizers watch).
struct AbandonedWordsAreLeftAlone {
  // Collective, and waits. Runs a few turns, the culprit perhaps with an abort; nothing if ranks do not read in place.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if constexpr (parallax::ReadsInPlace<C>) {
      if (!comm.reads_in_place()) return;
      auto const ranks = static_cast<std::size_t>(comm.size());
      Dice dice{mix(seed, 1u)};
      std::vector<std::uint64_t> own(20'000, 1);
      with_culprit(comm, seed, [&](bool is_culprit, auto const& leave) {
        for (int turn = 0; turn < 3; ++turn) {
          std::vector<std::uint64_t*> const all = told_to_all(comm, own.data());
          if (is_culprit && (turn == 2 || dice.below(2) == 0)) leave();
          comm.begin_reading();
          std::uint64_t sum = 0;
          for (auto const* words : all) sum = std::accumulate(words, words + own.size(), sum);
          comm.end_reading();
          require(sum == ranks * own.size(), "what was told is gone while it is read");
          await_turns(comm);
        }
        require(false, "an abort is not seen by who begins to read");
      });
      comm.await_readers();
    }
  }
};

// Check of loans that end too early. Ranks leave, and free their lent memory, while others sum in it (sanitizers watch).
// Complete sums are right.
struct AbandonedLoansAreLeftAlone {
  // Collective, and waits. Runs a few sums in lent memory, the culprit perhaps with an abort; nothing if ranks do not lend.
  template <class C>
  void operator()(C& comm, std::uint64_t seed) const {
    if constexpr (parallax::LendsMemory<C>) {
      constexpr std::size_t words = 200'000;
      Dice dice{mix(seed, static_cast<std::uint64_t>(comm.rank()))};
      parallax::Traffic traffic;
      parallax::Topology<C> topology{comm};
      if (!topology.hops()[0].lends) return;  // a communicator behind a type-erased edge may be unable to
      std::vector<std::size_t> offsets;
      for (int owner = 0; owner <= comm.size(); ++owner) offsets.push_back(parallax::part_begin(words, owner, comm.size()));
      with_culprit(comm, seed, [&](bool is_culprit, auto const& leave) {
        for (int i = 0; i < 3; ++i) {
          std::vector<float> values(words, 1.0f);
          parallax::LentHop<float, C> sum;
          parallax::Lane<C> lane{topology, 0, traffic};
          sum.start(offsets, words, {values.data(), nullptr, values.data()});
          bool done = false;
          for (std::size_t polls = dice.below(40); polls > 0 && !done; --polls) done = sum.poll(lane, topology.hops()[0]);
          if (is_culprit && dice.below(2) == 0) leave();
          while (!done) {
            done = sum.poll(lane, topology.hops()[0]);
            std::this_thread::yield();
          }
          require(values[dice.below(words)] == static_cast<float>(comm.size()), "a sum that was complete is wrong");
        }
        if (is_culprit) leave();
      });
    }
  }
};

}  // namespace parallax_conformance
