#include "parallax/partition/partitioner.hpp"

#include <cstdint>
#include <limits>
#include <random>

#include "../catch.hpp"
#include "balance.hpp"
#include "parallax/partition/block.hpp"
#include "parallax/partition/cyclic.hpp"
#include "parallax/partition/hash.hpp"

using parallax::detail::Divider;

TEST_CASE("division by multiplication is exact up to 2^63", "[partition]") {
  unsigned const seed = 41;
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> divisors{1, 2, 3, 5, 6, 7, 8, 641, 1 << 20, (1 << 20) + 1, most / 2, most - 1, most};
  for (int shift = 0; shift < 63; ++shift) {
    divisors.push_back((std::int64_t{1} << shift) + 1);
    divisors.push_back(static_cast<std::int64_t>(random() >> 1 >> shift) + 1);
  }
  for (std::int64_t const d : divisors) {
    Divider const by{d};
    INFO("divisor " << d);
    REQUIRE(by.divisor() == d);
    for (std::int64_t const n : {std::int64_t{0}, std::int64_t{1}, d - 1, d, most - 1, most, most - most % d, most / 2})
      REQUIRE(by.quotient(n) == n / d);
    for (int sample = 0; sample < 200; ++sample) {
      auto const n = static_cast<std::int64_t>(random() >> (1 + sample % 63));
      REQUIRE(by.quotient(n) == n / d);
      if (std::int64_t const whole = n / d * d; whole > 0) REQUIRE(by.quotient(whole - 1) == (whole - 1) / d);
    }
  }
}

TEST_CASE("a vocabulary sorted by frequency loads all owners alike, unless its ranges stay together", "[partition]") {
  std::int64_t const rows = 800'000;
  auto const draws = GENERATE(2560, 40'000);
  auto const seed = GENERATE(1u, 2u, 3u);
  INFO(draws << " ids a rank, seed " << seed);
  auto const batches = balance::zipf_batches(rows, 8, draws, seed);
  CHECK(balance::busiest_over_mean(parallax::Cyclic{}.layout(rows, 8), batches) <= 1.10);
  CHECK(balance::busiest_over_mean(parallax::Hash{}.layout(rows, 8), batches) <= 1.10);
  CHECK(balance::busiest_over_mean(parallax::Block{}.layout(rows, 8), batches) >= 2);
}

TEST_CASE("ids with a stride need Hash", "[partition]") {
  std::int64_t const rows = 800'000;
  balance::Ids hundreds;
  for (std::int64_t id = 0; id < rows; id += 100) hundreds.insert(id);
  CHECK(balance::busiest_over_mean(parallax::Cyclic{}.layout(rows, 8), {hundreds}) == 4);  // two owners of eight
  CHECK(balance::busiest_over_mean(parallax::Hash{}.layout(rows, 8), {hundreds}) <= 1.10);
}
