// The way from a key to a row: by the owner's first key, without overflow, and of a type that kernels can be handed.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "../catch.hpp"
#include "parallax/detail/kernel/row_ops.hpp"

namespace px = parallax;

TEST_CASE("a directory finds the rows of an owner, whose keys begin anywhere", "[kernel][directory]") {
  STATIC_REQUIRE(std::is_trivially_copyable_v<px::Directory<std::int64_t>>);
  px::Directory<std::int32_t> const rows;
  CHECK(rows(0) == 0);
  CHECK(rows(7) == 7);
  px::Directory<std::int32_t> const shard{1'000};
  CHECK(shard(1'000) == 0);
  CHECK(shard(1'013) == 13);
}

TEST_CASE("a directory reaches the ends of its keys' type", "[kernel][directory]") {
  px::Directory<std::uint32_t> const numbers;
  CHECK(numbers(std::numeric_limits<std::uint32_t>::max()) == 4'294'967'295);
  px::Directory<std::int32_t> const last{std::numeric_limits<std::int32_t>::max()};
  CHECK(last(std::numeric_limits<std::int32_t>::max()) == 0);
}
