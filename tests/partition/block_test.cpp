#include "parallax/detail/partition/block.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../catch.hpp"

using parallax::Block;
using parallax::Location;

TEST_CASE("every owner has one range", "[partition][contiguous]") {
  auto const layout = Block{}.layout(8, 3);  // 0 1 2 · 3 4 5 · 6 7
  CHECK(layout.locate(2) == Location{0, 2});
  CHECK(layout.locate(3) == Location{1, 0});
  CHECK(layout.locate(7) == Location{2, 1});
  CHECK(layout.local_rows(0) == 3);
  CHECK(layout.local_rows(2) == 2);
}

TEST_CASE("ranges are dealt round robin and laid one behind the other", "[partition][contiguous]") {
  std::int64_t const pieces = GENERATE(1, 2, 5, 7, 64, 1500);
  int const owners = 3;
  std::int64_t const rows = 1000;
  INFO(pieces << " pieces");
  auto const layout = Block{pieces}.layout(rows, owners);
  std::int64_t next[owners] = {};
  std::int64_t row = 0;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    std::int64_t const length = rows / pieces + (piece < rows % pieces ? 1 : 0);
    for (std::int64_t i = 0; i < length; ++i, ++row) {
      auto const owner = static_cast<int>(piece % owners);
      REQUIRE(layout.locate(row) == Location{owner, next[owner]++});
    }
  }
  REQUIRE(row == rows);
}
