// Ranks that do not do the same, in every way there is, as threads.
#include "mismatch.hpp"

using namespace parallax_test;
using namespace parallax_test::trust_mismatch;

TEST_CASE("R1 ranks that differ are told the same, by rank, variable and values, and nothing changes", "[trust][mismatch]") {
  Table table{"R1 mismatches: ranks 2, 3, 4, 8, every victim, seeds 1..5"};
  for (Kind const& kind : kinds)
    for (int const ranks : {2, 3, 4, 8})
      for (int victim = 0; victim < ranks; ++victim)
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
          bool hung = false;
          std::string complaint;
          try {
            auto const seen = on_ranks(ranks, [&](px::ThreadCommunicator& rank) {
              World world{std::ref(rank)};
              return one_rank(world, kind, world.rank() == victim, seed + static_cast<std::uint64_t>(victim));
            });
            complaint = complaint_of(kind, seen, ranks, victim);
            for (Seen const& each : seen)
              hung = hung || each.answer.code == px::Errc::timeout || each.later.code == px::Errc::timeout;
          } catch (px::Error const& error) {
            complaint = error.what();
            hung = error.code() == px::Errc::timeout;
          }
          table.count(kind.name, complaint, hung);
        }
  table.check(800);
}
