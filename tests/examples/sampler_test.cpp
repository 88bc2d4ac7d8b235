// The sampler of words: the distribution it claims, distinct ids, and the same sample for the same seed.
#include "language_model/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "../catch.hpp"

TEST_CASE("single draws follow the log-uniform distribution", "[examples][sampler]") {
  lm::Id const rows = 50;
  int const draws = 40000;
  lm::LogUniformSampler sampler{rows, 1};
  std::vector<int> counts(static_cast<std::size_t>(rows));
  for (int k = 0; k < draws; ++k) {
    sampler.draw(static_cast<std::uint64_t>(k));
    ++counts[static_cast<std::size_t>(sampler.ids()[0])];
  }
  double chi_squared = 0, total = 0;
  for (lm::Id id = 0; id < rows; ++id) {
    double const expected = draws * sampler.probability(id);
    double const distance = counts[static_cast<std::size_t>(id)] - expected;
    chi_squared += distance * distance / expected;
    total += sampler.probability(id);
  }
  CHECK(total == Approx(1).epsilon(1e-12));
  CHECK(chi_squared < 85.4);  // 99.9 % of what 49 degrees of freedom give
}

TEST_CASE("a sample holds distinct ids in range, and knows where each is", "[examples][sampler]") {
  lm::LogUniformSampler sampler{1000, 300};
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    sampler.draw(seed);
    auto const ids = sampler.ids();
    std::set<lm::Id> const distinct(ids.begin(), ids.end());
    CHECK(distinct.size() == 300);
    CHECK(*distinct.begin() >= 0);
    CHECK(*distinct.rbegin() < 1000);
    for (lm::Id id = 0; id < 1000; ++id) {
      auto const place = sampler.find(id);
      REQUIRE((place >= 0) == distinct.contains(id));
      if (place >= 0) REQUIRE(ids[static_cast<std::size_t>(place)] == id);
    }
  }
}

TEST_CASE("an id is in a sample as often as its expected count says", "[examples][sampler]") {
  lm::LogUniformSampler sampler{200, 40};
  int const samples = 3000;
  std::vector<double> found(200), expected(200);
  for (int k = 0; k < samples; ++k) {
    sampler.draw(static_cast<std::uint64_t>(k));
    for (lm::Id id = 0; id < 200; ++id) {
      found[static_cast<std::size_t>(id)] += sampler.find(id) >= 0;
      expected[static_cast<std::size_t>(id)] += std::exp(sampler.log_expected_count(id));
    }
  }
  for (std::size_t id : {0u, 1u, 5u, 20u, 60u, 199u}) {
    double const deviation = std::sqrt(expected[id] * (1 - expected[id] / samples)) + 1;
    CHECK(std::abs(found[id] - expected[id]) < 5 * deviation);
  }
}

TEST_CASE("the sample is a function of the seed, not of what was drawn before", "[examples][sampler]") {
  lm::LogUniformSampler one{793470, 64}, other{793470, 64};
  one.draw(1);
  one.draw(2);
  other.draw(2);
  CHECK(std::ranges::equal(one.ids(), other.ids()));
  CHECK(one.log_expected_count(7) == other.log_expected_count(7));
  other.draw(3);
  CHECK_FALSE(std::ranges::equal(one.ids(), other.ids()));
}

TEST_CASE("the first ids of a known seed are the same on every machine", "[examples][sampler]") {
  lm::LogUniformSampler sampler{793470, 6};
  sampler.draw(2016);
  std::vector<lm::Id> const ids(sampler.ids().begin(), sampler.ids().end());
  CHECK(ids == std::vector<lm::Id>{13055, 69401, 625539, 21, 1332, 1672});
}

TEST_CASE("a sample larger than the vocabulary is refused, one as large is all of it", "[examples][sampler]") {
  CHECK_THROWS(lm::LogUniformSampler{10, 11});
  lm::LogUniformSampler all{10, 10};
  all.draw(1);
  CHECK(all.ids().size() == 10);
}
