// The suite for every communicator, ours and yours: the promises of the concept, checked on all ranks at once. A test of a
// communicator includes it. The room `conformance` has the suites for a user's own pieces, passed by the library's, too.
//
// A model says in a few lines how to run a body on every rank of a fresh communicator, which must use this deadline:
//   struct MyRanks {
//     int ranks;
//     template <class Body>
//     void run(std::chrono::nanoseconds deadline, Body const& body) const { /* body(comm) on every rank; rethrow */ }
//   };
// `check_communicator(MyRanks{4})` checks exchanges. `check_failures(MyRanks{4})` checks the consequences when ranks disagree,
// abort or stay away; it is for communicators whose `abort` leaves the process alive. Both throw a Failure with the check and
// the seed. No test framework is needed; conformance/main.hpp brings Catch2 and a main. If the process already is one rank of
// several (MPI), `run` constructs a communicator and calls the body once, and every rank calls the suite with equal arguments.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "parallax/detail/conformance/exchange_checks.hpp"
#include "parallax/detail/conformance/failure_checks.hpp"

namespace parallax_conformance::inline v0_2 {

// Called by a test, in each of its processes: checks that exchanges carry the right data, on a model as described above. Every
// check has a fresh communicator. Throws a Failure with the check and the seed. Deadlines are a minute; a right communicator
// never comes near. Another seed gives other sizes and contents.
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
  check(model, seed, deadline, "words are read in turns", WordsAreReadInTurns{});
}
// Called by a test, in each of its processes: checks that ranks in disagreement, aborting or absent are found out and named,
// and nothing hangs. Throws a Failure. Each check has a fresh communicator, as most of them end theirs. The brief deadline is
// for checks of timeouts.
template <class Model>
void check_failures(Model const& model, std::uint64_t seed = 1) {
  constexpr std::chrono::seconds ample{60};
  constexpr std::chrono::milliseconds brief{400};
  int const size = ranks_of(model);
  using Sizes = std::pair<std::size_t, std::size_t>;
  // Sizes a little and far apart, either way.
  for (auto const& [sent, expected] :
       {Sizes{8, 16}, {16, 8}, {1000, 1}, {1, 1000}, {2000, 3000}, {3000, 2000}, {200000, 40}, {40, 200000}})
    check(model, seed, ample, "different sizes are a mismatch", DifferentSizesAreAMismatch{sent, expected});
  // If blocks cannot be told apart, a rank waits for one that never comes: it has to end soon.
  for (auto const& [sent, expected] : {Sizes{16, 0}, {0, 16}})
    check(model, seed, brief, "a block of nothing is not confused", ABlockOfNothingIsNotConfused{sent, expected});
  // The first rank and the last: they may have parts of their own in a communicator.
  for (int const rank : {0, size - 1}) {
    check(model, seed, ample, "an abort wakes all with its reason", AnAbortWakesAll{rank});
    if (size > 1) check(model, seed, brief, "a rank that stays away is named", ARankThatStaysAwayIsNamed{rank});
  }
  // Again and again, as each seed has ranks leave at other moments.
  for (std::uint64_t i = 0; i < 40; ++i)
    check(model, mix(seed, i), ample, "abandoned memory is left alone", AbandonedMemoryIsLeftAlone{});
  for (std::uint64_t i = 0; i < 20; ++i)
    check(model, mix(seed, i), ample, "abandoned loans are left alone", AbandonedLoansAreLeftAlone{});
  for (std::uint64_t i = 0; i < 20; ++i)
    check(model, mix(seed, i), ample, "abandoned words are left alone", AbandonedWordsAreLeftAlone{});
}

}  // namespace parallax_conformance
