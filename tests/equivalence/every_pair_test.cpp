// Every policy with every optimizer on thread ranks, against the oracle.
#include "every_pair.hpp"

#include "../catch.hpp"
#include "../support/size.hpp"

using namespace parallax_test;

TEST_CASE("every policy with every optimizer moves parameters as one process does", "[equivalence]") {
  bool const integers = GENERATE(false, true);
  std::vector<int> const hosts = GENERATE(std::vector<int>{}, std::vector<int>{0, 0, 1}, std::vector<int>{0, 1, 1, 0},
                                          std::vector<int>{0, 0, 0, 1, 1, 2, 2, 2});
  std::vector<int> const all_ranks = hosts.empty() ? std::vector{1, 2, 3, 4, 8} : std::vector{static_cast<int>(hosts.size())};
  for (int const ranks : all_ranks) {
    PairsCase const training{ranks, hosts, integers, sized(15, 50, 50)};
    std::vector<PairDiaries> seen(static_cast<std::size_t>(ranks));
    px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
      px::AnyCommunicator any{std::ref(world)};
      seen[static_cast<std::size_t>(world.rank())] = train_every_pair(any, training);
    });
    check_every_pair(training, seen);
  }
}
