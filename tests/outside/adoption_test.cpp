// An optimizer from outside whose slots follow values that are given, written from docs/ alone: dual averaging without a
// penalty (Xiao, JMLR 11, 2010), by which p follows from the mean of all gradients; and the error where `adopt` may throw.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>

#include "../catch.hpp"

namespace px = parallax;

namespace {

// p = -sum · rate / sqrt(t) in the step number t of the variable. An element moves in every step, with a gradient or without.
struct DualAveraging {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar>;
  static constexpr std::string_view name = "DualAveraging";
  [[maybe_unused]] static constexpr std::string_view slot_names[] = {"sum"};
  static constexpr px::Untouched untouched = px::Untouched::moves;
  double rate = 0.5;

  struct Rule {
    double by;  // rate / sqrt(t)
    void operator()(auto& p, auto g, auto& sum) const noexcept {
      PARALLAX_NO_CONTRACT
      sum += g;
      p = -sum * static_cast<decltype(g)>(by);
    }
    void adopt(auto p, auto& sum) const noexcept { sum = -p / static_cast<decltype(p)>(by); }
  };
  Rule at(std::int64_t step) const { return {rate / std::sqrt(static_cast<double>(step))}; }
};

constexpr std::int64_t rows = 5, width = 2;

// Row 1 is named in every step, row 2 in none; both begin as 1, and are set to -2 after some steps.
template <class Policy>
std::vector<float> trained(px::ThreadCommunicator& world) {
  px::Session session{world};
  px::Variable<px::Sparse, DualAveraging, Policy> table{
      session, "table", {.rows = rows, .width = width, .initial = px::constant(1)}};
  std::vector<float> const gradient(width, 0.125f), given(2 * width, -2.0f);
  std::vector<float> seen;
  auto const step = [&] {
    session.step(px::grad(table, std::vector{1}, gradient));
    auto const pulled = session.pull(table, std::vector{1, 2});
    seen.insert(seen.end(), {pulled[0][0], pulled[1][1]});
  };
  for (int i = 0; i < 4; ++i) step();
  session.assign(table, std::vector{1, 2}, given);
  for (int i = 0; i < 4; ++i) step();
  session.finish();
  return seen;
}

std::vector<double> by_hand() {
  double named = -1 / 0.5, other = named;  // sums, whose p in step 1 is 1 but for the gradient
  std::vector<double> seen;
  for (int t = 1; t <= 8; ++t) {
    double const by = 0.5 / std::sqrt(t);
    if (t == 5) named = other = 2 / by;
    named += 0.125;
    seen.insert(seen.end(), {-named * by, -other * by});
  }
  return seen;
}

}  // namespace

TEST_CASE("an optimizer from outside adopts first values and assigned ones", "[outside][adopt]") {
  std::vector<double> const expected = by_hand();
  for (int const ranks : {1, 2}) {
    std::vector<std::vector<float>> found(static_cast<std::size_t>(2 * ranks));
    px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
      found[static_cast<std::size_t>(world.rank())] = trained<px::PsShard>(world);
      found[static_cast<std::size_t>(ranks + world.rank())] = trained<px::AllReduce>(world);
    });
    for (auto const& seen : found) {
      REQUIRE(seen.size() == expected.size());
      for (std::size_t i = 0; i < seen.size(); ++i) CHECK(std::abs(seen[i] - expected[i]) < 1e-5);
    }
  }
}
