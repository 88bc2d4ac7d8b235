#include "parallax/detail/partition/cyclic.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "../catch.hpp"

using parallax::Cyclic;
using parallax::Location;

TEST_CASE("a round gives one row to every owner, and the last one begins at the first", "[partition][cyclic]") {
  auto const layout = Cyclic{}.layout(8, 3);
  for (std::int64_t round = 0; round < 2; ++round) {
    std::set<int> owners;
    for (std::int64_t row = 3 * round; row < 3 * (round + 1); ++row) {
      CHECK(layout.locate(row).local == round);
      owners.insert(layout.locate(row).owner);
    }
    CHECK(owners.size() == 3);
  }
  CHECK(layout.locate(6) == Location{0, 2});
  CHECK(layout.locate(7) == Location{1, 2});
  CHECK(layout.local_rows(0) == 3);
  CHECK(layout.local_rows(2) == 2);
}

TEST_CASE("a round visits the pieces in order, from a piece of its own on", "[partition][cyclic]") {
  std::int64_t const pieces = GENERATE(1, 2, 5, 6, 7, 64), rows = 1000;
  int const owners = 3;
  std::int64_t const period = pieces % owners == 0 ? owners : pieces;  // then one piece per owner is the same
  auto const layout = Cyclic{pieces}.layout(rows, owners);
  INFO(pieces << " pieces");
  std::vector<std::int64_t> held(owners);  // pieces
  for (std::int64_t piece = 0; piece < period; ++piece) ++held[static_cast<std::size_t>(piece % owners)];
  std::set<std::int64_t> starts;
  for (std::int64_t begin = 0; begin < rows; begin += period) {
    std::int64_t const round = begin / period, length = std::min(period, rows - begin);
    bool found = false;
    for (std::int64_t start = 0; start < (length == period ? period : 1) && !found; ++start) {
      found = true;
      for (std::int64_t i = 0; i < length; ++i) {
        std::int64_t const piece = (start + i) % period, owner = piece % owners;
        found = found && layout.locate(begin + i) ==
                             Location{static_cast<int>(owner), round * held[static_cast<std::size_t>(owner)] + piece / owners};
      }
      if (found) starts.insert(start);
    }
    INFO("round " << round);
    REQUIRE(found);
  }
  CHECK(starts.size() >= static_cast<std::size_t>(std::min<std::int64_t>(period, rows / period) * 6 / 10));
}

TEST_CASE("multiples of the owners give one layout, however many pieces there are", "[partition][cyclic]") {
  auto const few = Cyclic{4}.layout(1001, 4), many = Cyclic{64}.layout(1001, 4);
  for (std::int64_t row = 0; row < 1001; ++row) REQUIRE(few.locate(row) == many.locate(row));
}

// Files of sharded tables depend on these numbers: if this test fails, the library is wrong, not the test.
TEST_CASE("rounds begin at the same pieces for ever", "[partition][cyclic]") {
  auto const layout = Cyclic{}.layout(std::int64_t{1} << 40, 1000);
  std::vector<int> found;
  for (std::int64_t const round : {0, 1, 2, 3, 1'000'000}) found.push_back(layout.locate(round * 1000).owner);
  CHECK(found == std::vector<int>{0, 704, 229, 44, 266});
}
