#include "parallax/detail/partition/hash.hpp"

#include <cstdint>
#include <vector>

#include "../catch.hpp"

using parallax::Hash;
using parallax::Location;
using parallax::detail::Shuffle;

TEST_CASE("the shuffle is a permutation with its inverse", "[partition][hash]") {
  for (std::int64_t size = 0; size < 300; ++size) {
    INFO("size " << size);
    Shuffle const shuffle{size};
    std::vector<bool> taken(static_cast<std::size_t>(size));
    for (std::int64_t x = 0; x < size; ++x) {
      std::int64_t const y = shuffle(x);
      REQUIRE(y >= 0);
      REQUIRE(y < size);
      REQUIRE_FALSE(taken[static_cast<std::size_t>(y)]);
      taken[static_cast<std::size_t>(y)] = true;
      REQUIRE(shuffle.inverse(y) == x);
    }
  }
}

// Files of sharded tables depend on these numbers: if this test fails, the library is wrong, not the test.
TEST_CASE("the shuffle is the same for ever", "[partition][hash]") {
  std::vector<std::int64_t> small, large;
  for (std::int64_t x = 0; x < 10; ++x) small.push_back(Shuffle{10}(x));
  for (std::int64_t const x : {0, 1, 2, 799'999}) large.push_back(Shuffle{800'000}(x));
  for (std::int64_t const x : {1, 2}) large.push_back(Shuffle{std::int64_t{1} << 40}(x));
  CHECK(small == std::vector<std::int64_t>{0, 8, 4, 2, 3, 1, 9, 6, 7, 5});
  CHECK(large == std::vector<std::int64_t>{0, 626406, 40265, 464700, 464552353631, 522070172492});
  CHECK(Shuffle{std::int64_t{1} << 40}.inverse(large.back()) == 2);
  CHECK(Hash{}.layout(800'000, 8).locate(1) == Location{6, 78300});
}

TEST_CASE("neighbouring rows part", "[partition][hash]") {
  auto const layout = Hash{}.layout(800'000, 8);
  int together = 0;
  for (std::int64_t row = 0; row < 80'000; ++row)
    together += layout.locate(row).owner == layout.locate(row + 1).owner;
  CHECK(together > 80'000 / 8 * 0.8);
  CHECK(together < 80'000 / 8 * 1.2);
}
