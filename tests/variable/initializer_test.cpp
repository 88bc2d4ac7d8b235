// First values are a function of seed, name, row and column: the same on any number of ranks, and of the right distribution.
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace px = parallax;

namespace {

std::uint64_t hash_of(std::string_view name) {
  px::Fingerprint hash;
  hash.add(name);
  return hash.value();
}

// All values of a table by global row, as the ranks hold them.
template <class Policy, class Partitioner>
std::vector<double> values_at(int ranks, std::string const& name, px::Table const& table) {
  std::vector<double> values(static_cast<std::size_t>(table.rows * table.width), -99);
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, Policy, Partitioner, double> variable{session, name, table};
    auto const local = variable.local();
    for (std::int64_t row = 0; row < local.rows; ++row)
      for (std::int64_t c = 0; c < table.width; ++c)
        if (variable.local_rows() < table.rows || world.rank() == 0 || ranks == 1)
          values[static_cast<std::size_t>(variable.global_row(row) * table.width + c)] = local.row(row)[c];
    session.finish();
  });
  return values;
}

}  // namespace

TEST_CASE("first values do not depend on ranks, policy or partitioner", "[variable][initializer]") {
  px::Table const table{37, 3, px::uniform(-2, 3, 9)};
  auto const expected = values_at<px::PsShard, px::Cyclic>(1, "words", table);
  for (double const value : expected) CHECK((value >= -2 && value < 3));
  for (int const ranks : {2, 3, 4, 8}) {
    CHECK(values_at<px::PsShard, px::Cyclic>(ranks, "words", table) == expected);
    CHECK(values_at<px::PsShard, px::Hash>(ranks, "words", table) == expected);
    CHECK(values_at<baseline::NaivePs, px::Block>(ranks, "words", table) == expected);
    CHECK(values_at<px::AllGather, px::Cyclic>(ranks, "words", table) == expected);
    CHECK(values_at<px::AllReduce, px::Hash>(ranks, "words", table) == expected);
  }
  CHECK(values_at<px::PsShard, px::Cyclic>(2, "other words", table) != expected);
}

TEST_CASE("seed, name, row and column each make another value", "[variable][initializer]") {
  auto const a = hash_of("a"), b = hash_of("b");
  std::set<double> seen;
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    for (std::uint64_t const name : {a, b})
      for (std::int64_t row = 0; row < 20; ++row)
        for (std::int64_t column = 0; column < 20; ++column) seen.insert(px::uniform(0, 1, seed).value(name, row, column));
  CHECK(seen.size() == 5 * 2 * 20 * 20);
  CHECK(px::uniform(0, 1, 3).value(a, 1, 2) == px::uniform(0, 1, 3).value(a, 1, 2));
  CHECK(px::constant(0.75).value(a, 5, 6) == 0.75);
}

TEST_CASE("uniform and normal values have the moments that they should", "[variable][initializer]") {
  int const n = 100'000;
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0;
  int beyond_two = 0;
  for (int i = 0; i < n; ++i) {
    double const u = px::uniform(-1, 1, 5).value(hash_of("u"), i / 100, i % 100);
    double const g = px::normal(2.0, 5).value(hash_of("g"), i / 100, i % 100);
    sum += u, squares += u * u;
    normal_sum += g, normal_squares += g * g;
    beyond_two += std::fabs(g) > 4;
    REQUIRE(std::isfinite(g));
  }
  CHECK(sum / n == Approx(0).margin(0.01));
  CHECK(squares / n == Approx(1.0 / 3).margin(0.01));
  CHECK(normal_sum / n == Approx(0).margin(0.03));
  CHECK(normal_squares / n == Approx(4).margin(0.1));
  CHECK(beyond_two / double{n} == Approx(0.0455).margin(0.003));
}

TEST_CASE("first values are what they always were: a run is reproduced years later", "[variable][initializer]") {
  CHECK(px::uniform(0, 1, 1).value(hash_of("words"), 2, 3) == 0x1.b1e72521a845fp-1);
  CHECK(px::normal(1, 1).value(hash_of("words"), 2, 3) == Approx(-0x1.c6addfc31b395p+0).epsilon(1e-14));
}
