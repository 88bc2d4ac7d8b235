// Shares of the data: together they are everything, once.
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

struct World {
  int of_rank, ranks;
  int rank() const { return of_rank; }
  int size() const { return ranks; }
};

}  // namespace

TEST_CASE("blocks and cyclic shares of an index range cover it once, evenly", "[session][shard]") {
  for (int const ranks : {1, 2, 3, 7})
    for (std::size_t const n : {0u, 1u, 6u, 7u, 100u}) {
      CAPTURE(ranks, n);
      std::vector<int> in_blocks(n), in_cycles(n);
      std::size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        auto const block = px::shard_block(n, World{rank, ranks}), cycle = px::shard_cyclic(n, World{rank, ranks});
        for (std::size_t const i : block) {
          CHECK(i == next++);
          ++in_blocks[i];
        }
        for (std::size_t const i : cycle) {
          CHECK(i % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank));
          ++in_cycles[i];
        }
        auto const share = n / static_cast<std::size_t>(ranks);
        CHECK((block.size() == share || block.size() == share + 1));
        CHECK((cycle.size() == share || cycle.size() == share + 1));
      }
      CHECK(in_blocks == std::vector<int>(n, 1));
      CHECK(in_cycles == std::vector<int>(n, 1));
    }
}

TEST_CASE("every rank takes as many steps, and at most N - 1 elements are left out", "[session][shard]") {
  std::vector<std::string> const batches{"a", "b", "c", "d", "e", "f", "g", "h"};
  std::vector<std::string> dealt;
  for (int rank = 0; rank < 3; ++rank) {
    auto const mine = px::shard(batches, World{rank, 3});
    CHECK(mine.size() == 2);
    CHECK(mine[1] == batches[static_cast<std::size_t>(rank) + 3]);
    for (std::string const& batch : mine) dealt.push_back(batch);
  }
  CHECK(dealt == std::vector<std::string>{"a", "d", "b", "e", "c", "f"});
}
