#include "parallax/partition/cyclic.hpp"

#include <cstdint>

#include "../catch.hpp"

using parallax::Cyclic;
using parallax::Location;

TEST_CASE("rows are dealt one by one", "[partition][cyclic]") {
  auto const layout = Cyclic{}.layout(8, 3);
  CHECK(layout.locate(0) == Location{0, 0});
  CHECK(layout.locate(1) == Location{1, 0});
  CHECK(layout.locate(2) == Location{2, 0});
  CHECK(layout.locate(3) == Location{0, 1});
  CHECK(layout.locate(7) == Location{1, 2});
  CHECK(layout.local_rows(0) == 3);
  CHECK(layout.local_rows(2) == 2);
}

TEST_CASE("pieces are dealt to owners by their number", "[partition][cyclic]") {
  std::int64_t const pieces = GENERATE(1, 2, 5, 6, 64);
  int const owners = 3;
  auto const layout = Cyclic{pieces}.layout(1000, owners);
  INFO(pieces << " pieces");
  std::int64_t next[owners] = {};
  for (std::int64_t row = 0; row < 1000; ++row) {
    auto const owner = static_cast<int>(row % pieces % owners);
    REQUIRE(layout.locate(row) == Location{owner, next[owner]++});  // an owner's rows keep their order
  }
}

TEST_CASE("multiples of the owners give one layout, however many pieces there are", "[partition][cyclic]") {
  auto const few = Cyclic{4}.layout(1001, 4), many = Cyclic{64}.layout(1001, 4);
  for (std::int64_t row = 0; row < 1001; ++row) REQUIRE(few.locate(row) == many.locate(row));
}
