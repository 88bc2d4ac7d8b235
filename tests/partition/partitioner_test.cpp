#include "parallax/partition/partitioner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "balance.hpp"
#include "parallax/conformance/partitioner.hpp"
#include "parallax/detail/partition/block.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/detail/partition/hash.hpp"
#include "parallax/partition/greedy.hpp"

using parallax::Greedy;
using parallax::detail::Divider;

namespace {

// Zipf's law, exponent 1, from `head` on; its rows in random order unless the seed is 0.
std::vector<double> zipf_weights(std::size_t rows, std::size_t head, unsigned seed) {
  std::vector<double> weights(rows);
  for (std::size_t i = 0; i < rows; ++i) weights[i] = 1e6 / static_cast<double>(i + head);
  std::mt19937_64 random{seed};
  if (seed > 0) std::shuffle(weights.begin(), weights.end(), random);
  return weights;
}

// The expected traffic of the busiest owner over the mean.
template <parallax::PartitionLayout Layout>
double busiest_over_mean(Layout const& layout, std::vector<double> const& weights) {
  std::vector<double> load(static_cast<std::size_t>(layout.owners()));
  for (std::size_t row = 0; row < weights.size(); ++row)
    load[static_cast<std::size_t>(layout.locate(static_cast<std::int64_t>(row)).owner)] += weights[row];
  return *std::max_element(load.begin(), load.end()) * layout.owners() / std::accumulate(load.begin(), load.end(), 0.0);
}

// The sentence of the refusal, or nothing.
std::string refusal(std::vector<double> const& weights, std::int64_t rows) {
  try {
    static_cast<void>(Greedy{weights}.layout(rows, 2));
  } catch (parallax::Error const& error) {
    return error.code() == parallax::Errc::invalid_argument ? error.detail() : "another code";
  }
  return "";
}

}  // namespace

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

TEST_CASE("ids with a stride load all owners alike", "[partition]") {
  std::int64_t const rows = 200'000;
  for (std::int64_t const stride : {2, 3, 7, 8, 16, 64, 100, 128, 987})  // 987: where a golden ratio would repeat itself
    for (int const owners : {2, 7, 8, 16}) {
      INFO("every " << stride << "th row, " << owners << " owners");
      std::vector<double> dealt(static_cast<std::size_t>(owners)), hashed = dealt;
      auto const cyclic = parallax::Cyclic{}.layout(rows, owners);
      auto const hash = parallax::Hash{}.layout(rows, owners);
      for (std::int64_t id = 0; id < rows; id += stride) {
        ++dealt[static_cast<std::size_t>(cyclic.locate(id).owner)];
        if (stride == 100) ++hashed[static_cast<std::size_t>(hash.locate(id).owner)];
      }
      // The busiest of m owners to which n ids are thrown at random has about sqrt(2 ln(m) n / m) more than the mean n / m.
      double const mean = static_cast<double>((rows + stride - 1) / stride) / owners;
      double const most = mean + 1.5 * std::sqrt(2 * std::log(2.0 * owners) * mean);
      CHECK(*std::max_element(dealt.begin(), dealt.end()) <= most);
      CHECK(*std::max_element(hashed.begin(), hashed.end()) <= most);
    }
}

TEST_CASE("a range of ids that is whole rounds is dealt evenly", "[partition]") {
  auto const layout = parallax::Cyclic{}.layout(10'000, 8);
  balance::Ids range;
  for (std::int64_t id = 800; id < 1600; ++id) range.insert(id);
  CHECK(balance::busiest_over_mean(layout, {range}) == 1);
}

TEST_CASE("rows dealt by weight load all owners alike", "[partition][greedy]") {
  auto const seed = GENERATE(0u, 7u);  // sorted by frequency, and in random order
  INFO("seed " << seed);
  std::size_t const rows = 100'000;
  auto const zipf = zipf_weights(rows, 1, seed), flatter = zipf_weights(rows, 25, seed);  // no row exceeds the mean of 128
  auto const eight = Greedy{zipf}.layout(std::ssize(zipf), 8), many = Greedy{flatter}.layout(std::ssize(flatter), 128);
  CHECK(busiest_over_mean(eight, zipf) <= 1.05);
  CHECK(busiest_over_mean(many, flatter) <= 1.05);
  CHECK(busiest_over_mean(parallax::Hash{}.layout(std::ssize(flatter), 128), flatter) > 1.15);  // what the weights buy

  auto const alone = Greedy{zipf}.layout(std::ssize(zipf), 128);  // the first row outweighs ten owners: nothing joins it
  CHECK(busiest_over_mean(alone, zipf) == Approx(128 * 1e6 / std::accumulate(zipf.begin(), zipf.end(), 0.0)));
  std::mt19937_64 random{seed + 1};
  parallax_conformance::is_invertible_at_samples(many, random);
  parallax_conformance::is_invertible_at_samples(alone, random);
}

TEST_CASE("rows that a sample did not name are spread over the owners as well", "[partition][greedy]") {
  std::vector<double> weights(50'000);
  for (std::size_t row = 0; row < 300; ++row) weights[row * 7] = static_cast<double>(1 + row % 10);
  auto const layout = Greedy{weights}.layout(std::ssize(weights), 8);
  CHECK(busiest_over_mean(layout, weights) <= 1.05);
  for (std::int64_t const size : parallax_conformance::shard_sizes(layout)) CHECK(size <= 2 * std::ssize(weights) / 8);
  auto const unweighted = Greedy{std::vector<double>(1000)}.layout(1000, 8);
  for (std::int64_t const size : parallax_conformance::shard_sizes(unweighted)) CHECK(size == 125);
}

TEST_CASE("a layout by weight is as easily copied as any, and depends on the weights alone", "[partition][greedy]") {
  auto const weights = zipf_weights(5'000, 1, 3);
  auto copy = Greedy{}.layout(1, 1);
  {
    Greedy const once{weights};
    copy = once.layout(5'000, 8);
  }
  auto const again = Greedy{weights}.layout(5'000, 8);
  for (std::int64_t row = 0; row < 5'000; ++row) REQUIRE(copy.locate(row) == again.locate(row));
}

TEST_CASE("weights that make no sense are named", "[partition][greedy]") {
  CHECK(refusal({1, 2, 3}, 3) == "");
  CHECK(refusal({}, 0) == "");
  CHECK(refusal({1, -2.5, 3}, 3) == "Greedy: the weight of row 1 is -2.5");
  CHECK(refusal({1, 2, std::numeric_limits<double>::quiet_NaN()}, 3) == "Greedy: the weight of row 2 is nan");
  CHECK(refusal({std::numeric_limits<double>::infinity()}, 1) == "Greedy: the weight of row 0 is inf");
  CHECK(refusal({1e308, 1e308}, 2) == "Greedy: the weights add up to inf");
  CHECK(refusal({1, 2}, 3) == "Greedy has 2 weights for a table of 3 rows");
}

TEST_CASE("ranks can tell weights apart", "[partition][greedy]") {
  using parallax::fields_text;
  auto const text = fields_text(Greedy{{1, 2, 3}});
  CHECK(text == fields_text(Greedy{{1, 2, 3}}));
  CHECK(text != fields_text(Greedy{{1, 3, 2}}));
  CHECK(text != fields_text(Greedy{}));
  CHECK(fields_text(Greedy{}) != fields_text(Greedy{std::vector<double>{}}));
  CHECK(fields_text(Greedy{{-0.0}}) == fields_text(Greedy{{0.0}}));
  Greedy pieces{{1, 2, 3}};
  pieces.pieces = 2;
  CHECK(text != fields_text(pieces));
  CHECK(parallax::fields_hash(pieces) != parallax::fields_hash(Greedy{{1, 2, 3}}));
}
