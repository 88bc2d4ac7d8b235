#include "parallax/detail/partition/search.hpp"

#include <cmath>
#include <cstdint>
#include <random>

#include "../catch.hpp"

using parallax::PieceSearch;
using parallax::SearchOptions;

namespace {

struct Curve {
  double a, b, c;
  double operator()(std::int64_t k) const { return a + b / static_cast<double>(k) + c * static_cast<double>(k); }
  double least(std::int64_t most) const {
    double best = (*this)(1);
    for (std::int64_t k = 2; k <= most; ++k) best = std::min(best, (*this)(k));
    return best;
  }
};

// Takes steps as the curve has it, each up to `noise` longer, until the search is done.
template <class Random>
PieceSearch searched(Curve const& curve, std::int64_t first, SearchOptions const& options, double noise, Random& random) {
  PieceSearch search{first, options};
  std::uniform_real_distribution<double> extra{0, noise};
  while (!search.done()) {
    double const held_up = random() % 10 == 0 ? 3 : 1;  // one step in ten
    search.add(curve(search.pieces()) * (noise > 0 ? held_up * (1 + extra(random)) : 1));
  }
  return search;
}

}  // namespace

TEST_CASE("a search finds the least of its model in six probes and a hundred steps", "[partition][search]") {
  std::mt19937_64 random{7};  // the seed
  std::uniform_real_distribution<double> exponent{-4, 1};
  for (int trial = 0; trial < 2000; ++trial) {
    Curve const curve{std::pow(10, exponent(random)), std::pow(10, exponent(random)), std::pow(10, exponent(random) - 2)};
    std::int64_t const first = 1 + static_cast<std::int64_t>(random() % 16), most = 8 * first;
    bool const noisy = trial % 2;
    auto const search = searched(curve, first, {}, noisy ? 0.01 : 0, random);
    INFO("trial " << trial << ": " << curve.a << " + " << curve.b << "/K + " << curve.c << " K from " << first << ", found "
                  << search.pieces() << " in " << search.probes().size() << " probes");
    REQUIRE(search.probes().size() <= 6);
    REQUIRE(search.steps() <= 100);
    REQUIRE(search.pieces() >= 1);
    REQUIRE(search.pieces() <= most);
    REQUIRE(curve(search.pieces()) <= (noisy ? 1.05 : 1.03) * curve.least(most));
  }
}

TEST_CASE("a search that is told nothing new tries no number twice, and ends", "[partition][search]") {
  std::mt19937_64 random{3};
  for (Curve const curve : {Curve{1, 0, 0}, Curve{0, 1, 0}, Curve{0, 0, 1}}) {
    auto const search = searched(curve, 4, {.probes = 20}, 0, random);
    for (auto const& a : search.probes()) {
      int same = 0;
      for (auto const& b : search.probes()) same += a.pieces == b.pieces;
      CHECK(same == 1);
    }
    CHECK(curve(search.pieces()) == curve.least(32));
  }
}

TEST_CASE("a search stays within its bounds", "[partition][search]") {
  std::mt19937_64 random{5};
  auto const search = searched({0.1, 10, 1e-6}, 8, {.least = 4, .most = 12}, 0, random);
  for (auto const& probe : search.probes()) {
    CHECK(probe.pieces >= 4);
    CHECK(probe.pieces <= 12);
  }
  CHECK(search.pieces() == 12);
}

TEST_CASE("the first steps of a probe do not count", "[partition][search]") {
  PieceSearch search{2, {.steps = 3, .settling = 2}};
  for (double const seconds : {1000.0, 1000.0, 1.0, 2.0, 3.0}) search.add(seconds);
  REQUIRE(search.probes().size() == 1);
  CHECK(search.probes()[0].seconds == 2.0);
}
