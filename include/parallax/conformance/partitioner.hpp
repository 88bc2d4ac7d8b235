// The conformance suite of partitioners: the duties of every model of the concept, to be run on your own as on ours. A test of
// a partitioner includes the suite.
//
//   #include <parallax/conformance/main.hpp>
//   #include <parallax/conformance/partitioner.hpp>
//   TEST_CASE("Mine is a partitioner") { parallax_conformance::check_partitioner<Mine>(); }
//
// It reports by Catch2's assertions.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "parallax/detail/conformance/catch.hpp"
#include "parallax/partition/partitioner.hpp"

namespace parallax_conformance::inline v0_2 {

// Returns every owner's number of rows, by owner, and asserts that they add up to the table's. Called once for each layout.
template <parallax::PartitionLayout Layout>
std::vector<std::int64_t> shard_sizes(Layout const& layout) {
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  for (int owner = 0; owner < layout.owners(); ++owner) {
    sizes.push_back(layout.local_rows(owner));
    REQUIRE(sizes.back() >= 0);
    total += sizes.back();
  }
  REQUIRE(total == layout.rows());
  return sizes;
}

// Checks one row: it lies inside its owner's shard, and comes back. Returns its place. `sizes`: rows of each owner's shard.
template <parallax::PartitionLayout Layout>
parallax::Location checked_location(Layout const& layout, std::vector<std::int64_t> const& sizes, std::int64_t row) {
  parallax::Location const at = layout.locate(row);
  bool const owned = at.owner >= 0 && at.owner < layout.owners();
  bool const inside = owned && at.local >= 0 && at.local < sizes[static_cast<std::size_t>(at.owner)];
  if (inside && layout.global_row(at.owner, at.local) == row) return at;  // half a million are, and cost no assertion each
  INFO("row " << row);
  REQUIRE(at.owner >= 0);
  REQUIRE(at.owner < layout.owners());
  REQUIRE(at.local >= 0);
  REQUIRE(at.local < sizes[static_cast<std::size_t>(at.owner)]);
  REQUIRE(layout.global_row(at.owner, at.local) == row);
  return at;
}

// Checks a small table, row by row: no two rows share a place. With the sizes adding up, every place is then taken.
template <parallax::PartitionLayout Layout>
void is_a_bijection(Layout const& layout) {
  auto const sizes = shard_sizes(layout);
  std::vector<std::vector<bool>> taken;
  for (std::int64_t const size : sizes) taken.emplace_back(static_cast<std::size_t>(size));
  for (std::int64_t row = 0; row < layout.rows(); ++row) {
    parallax::Location const at = checked_location(layout, sizes, row);
    auto place = taken[static_cast<std::size_t>(at.owner)][static_cast<std::size_t>(at.local)];
    if (place) FAIL("row " << row << " shares its place, " << at.local << " of owner " << at.owner);
    place = true;
  }
}

// Checks a table too large to visit: the ends, random rows, and the ends and the middle of every shard go there and back.
template <parallax::PartitionLayout Layout>
void is_invertible_at_samples(Layout const& layout, std::mt19937_64& random) {
  auto const sizes = shard_sizes(layout);
  checked_location(layout, sizes, 0);
  checked_location(layout, sizes, layout.rows() - 1);
  for (int sample = 0; sample < 100; ++sample)
    checked_location(layout, sizes, static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(layout.rows())));
  for (int owner = 0; owner < layout.owners(); ++owner)
    if (std::int64_t const size = sizes[static_cast<std::size_t>(owner)]; size > 0)
      for (std::int64_t const local : {std::int64_t{0}, size / 2, size - 1}) {
        std::int64_t const row = layout.global_row(owner, local);
        REQUIRE(row >= 0);
        REQUIRE(row < layout.rows());
        REQUIRE(layout.locate(row) == parallax::Location{owner, local});
      }
}

// Checks all promises of the concept. `model_of(rows)` is a model for so many rows, up to 2^63 - 1; its `pieces` is varied
// here. For partitioners with knowledge of their table, as by a weight for each row.
template <parallax::Partitioner P, class ModelOf>
void check_partitioner_of_rows(ModelOf const& model_of) {
  INFO("partitioner " << std::string_view{P::name});
  CHECK_FALSE(std::string_view{P::name}.empty());
  auto const layout_of = [&](std::int64_t rows, int owners, std::int64_t pieces) {
    P model = model_of(rows);
    model.pieces = pieces;
    auto const layout = model.layout(rows, owners);
    REQUIRE(layout.rows() == rows);
    REQUIRE(layout.owners() == owners);
    return layout;
  };

  // Small tables, every row of them: with fewer rows than owners, with fewer pieces, with more of both.
  for (std::int64_t const rows : {0, 1, 2, 3, 7, 8, 9, 64, 65, 100, 1023})
    for (int const owners : {1, 2, 3, 7, 8, 20})
      for (std::int64_t const pieces : {0, 1, 2, 7, 8, 20, 64, 2000}) {
        INFO(rows << " rows in " << pieces << " pieces to " << owners << " owners");
        is_a_bijection(layout_of(rows, owners, pieces));
      }

  unsigned const seed = 17;
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  // Large tables, beyond 32 bits and up to the largest number.
  for (std::int64_t const rows : {std::int64_t{1} << 31, (std::int64_t{1} << 40) - 1, (std::int64_t{1} << 40) + 5,
                                  std::numeric_limits<std::int64_t>::max()})
    for (int const owners : {1, 3, 8, 1000})
      for (std::int64_t const pieces : {std::int64_t{0}, std::int64_t{30}, std::int64_t{4096}, std::int64_t{1} << 33}) {
        INFO(rows << " rows in " << pieces << " pieces to " << owners << " owners");
        is_invertible_at_samples(layout_of(rows, owners, pieces), random);
        // Layouts are functions of their values alone: another one gives equal answers.
        auto const again = layout_of(rows, owners, pieces);
        REQUIRE(again.locate(rows / 3) == layout_of(rows, owners, pieces).locate(rows / 3));
      }

  auto const refuses = [&](std::int64_t rows, int owners, std::int64_t pieces) {
    try {
      layout_of(rows, owners, pieces);
    } catch (parallax::Error const& error) {
      return error.code() == parallax::Errc::invalid_argument;
    }
    return false;
  };
  // Numbers impossible for a layout.
  CHECK(refuses(-1, 2, 0));
  CHECK(refuses(10, 0, 0));
  CHECK(refuses(10, -3, 0));
  CHECK(refuses(10, 2, -1));
}

// Called by a test: checks as check_partitioner_of_rows, with `model` for any number of rows; it may carry options of its own.
template <parallax::Partitioner P>
void check_partitioner(P const& model = {}) {
  check_partitioner_of_rows<P>([&](std::int64_t) { return model; });
}

}  // namespace parallax_conformance
