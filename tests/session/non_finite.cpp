// Infinities and what is not a number: let through, skipped or refused, alike on all ranks.
#include <cmath>
#include <limits>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::non_finite {
namespace {

using px::grad;

struct Outcome {
  bool applied = false, same = false, poisoned = false;
  Answer answer;
};

// The rows of a table whose mean gradients are looked at before they are applied, or are not.
std::vector<float> trained(px::ThreadCommunicator& world, px::NonFinite policy) {
  px::Session session{world, {.non_finite = policy}};
  px::Variable<px::Sparse, px::Adagrad> table{session, "table", {40, 3, px::uniform(-1, 1)}};
  for (int step = 0; step < 5; ++step) {
    std::vector<int> ids;
    std::vector<float> gradient;
    for (int i = 0; i < 30; ++i) ids.push_back((i * (step + 3) + 7 * world.rank()) % 40);
    for (int i = 0; i < 90; ++i) gradient.push_back(static_cast<float>((i * 13 + step + world.rank()) % 19) / 7 - 1);
    session.step(grad(table, ids, gradient));
  }
  auto const local = table.local();
  std::vector<float> rows;
  for (std::int64_t row = 0; row < local.rows; ++row) rows.insert(rows.end(), local[row].begin(), local[row].end());
  session.finish();
  return rows;
}

// One good step of a model, then one with a poisoned gradient on rank `culprit`, then a good one.
std::vector<Outcome> outcomes(px::NonFinite policy, int culprit, bool sparse, float poison, bool started) {
  return on_ranks(3, [&](px::ThreadCommunicator& world) {
    px::Session session{world, {.non_finite = policy}};
    std::vector<float> memory(20, 1.0f);
    px::Variable<px::Dense, px::Adagrad> dense{session, "dense", px::bind(memory)};
    px::Variable<px::Sparse, px::Adam> table{session, "table", {9, 2, px::constant(1)}};
    std::vector<int> const ids{4, 1, 4};
    auto const train = [&](bool bad) {
      std::vector<float> g(20, 0.25f), rows(6, 0.5f);
      if (bad && world.rank() == culprit) (sparse ? rows[3] : g[13]) = poison;
      if (started) session.start(grad(dense, g));
      if (started) return session.step(grad(table, ids, rows));
      return session.step(grad(dense, g), grad(table, ids, rows));
    };
    auto const state = [&] {
      px::Fingerprint hash;
      auto const add = [&](float const* values, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) hash.add(std::uint64_t{std::bit_cast<std::uint32_t>(values[i])});
      };
      add(memory.data(), memory.size());
      auto const local = table.local();
      add(local.data, static_cast<std::size_t>(local.rows * local.width));
      add(dense.state().optimizer_state().span<0>().data(), 20);
      hash.add(static_cast<std::uint64_t>(dense.steps() + 100 * table.steps() + 10000 * session.steps()));
      return hash.value();
    };
    Outcome outcome;
    train(false);
    auto const before = state();
    outcome.answer = answer_of([&] { outcome.applied = train(true); });
    outcome.same = state() == before;
    if (policy != px::NonFinite::propagate) train(false);
    for (float const value : memory) outcome.poisoned |= !std::isfinite(value);
    auto const local = table.local();
    for (std::int64_t row = 0; row < local.rows; ++row) outcome.poisoned |= !std::isfinite(local[row][0] + local[row][1]);
    if (session.steps() != 2) outcome.poisoned = true;
    session.finish();
    return outcome;
  });
}

}  // namespace

TEST_CASE("a gradient that is not finite is skipped by all ranks, or refused with its place", "[session][non_finite]") {
  bool const sparse = GENERATE(false, true), started = GENERATE(false, true);
  int const culprit = GENERATE(0, 2);
  float const poison = GENERATE(std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity());
  CAPTURE(sparse, started, culprit, poison);
  for (auto const& outcome : outcomes(px::NonFinite::skip_step, culprit, sparse, poison, started)) {
    CHECK_FALSE(outcome.applied);
    CHECK_FALSE(outcome.answer.refused);
    CHECK(outcome.same);
    CHECK_FALSE(outcome.poisoned);
  }
  for (auto const& outcome : outcomes(px::NonFinite::error, culprit, sparse, poison, started)) {
    CHECK(outcome.answer.code == px::Errc::non_finite);
    CHECK(outcome.answer.rank == culprit);
    CHECK(outcome.answer.variable == (sparse ? "table" : "dense"));
    CHECK(outcome.answer.detail.find(sparse ? "row 1, column 1 is" : "element 13 is") != std::string::npos);
    CHECK(outcome.same);
    CHECK_FALSE(outcome.poisoned);
  }
}

TEST_CASE("without being told a session lets everything through", "[session][non_finite]") {
  auto const results = outcomes(px::NonFinite::propagate, 1, false, std::numeric_limits<float>::quiet_NaN(), false);
  for (auto const& outcome : results) {
    CHECK(outcome.applied);
    CHECK(outcome.poisoned);
  }
}

TEST_CASE("a sum that overflows is found where no rank's gradient did", "[session][non_finite]") {
  auto const results = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world, {.non_finite = px::NonFinite::error}};
    std::vector<float> memory(8), g(8, 0.0f);
    g[6] = std::numeric_limits<float>::max();
    px::Variable<px::Dense> dense{session, "dense", px::bind(memory)};
    return answer_of([&] { session.step(grad(dense, g)); });
  });
  CHECK(results[0] == results[1]);
  CHECK(results[0].code == px::Errc::non_finite);
  CHECK(results[0].rank == 1);
  CHECK(results[0].detail.find("of the sum over ranks, element 6 is inf") != std::string::npos);
}

TEST_CASE("the first odd value of a long run is found", "[session][non_finite]") {
  std::vector<double> values(2000, 1e308);
  CHECK(px::first_non_finite(values.data(), 2000) == 2000);
  values[1999] = -std::numeric_limits<double>::infinity();
  CHECK(px::first_non_finite(values.data(), 2000) == 1999);
  values[700] = std::nan("");
  CHECK(px::first_non_finite(values.data(), 2000) == 700);
  CHECK(px::first_non_finite(values.data(), 0) == 0);
}

TEST_CASE("a step that looks for what is not finite has the bits of one that does not", "[session][non_finite]") {
  int const ranks = GENERATE(1, 2, 3, 4);
  auto const by = [&](px::NonFinite policy) {
    return on_ranks(ranks, [&](px::ThreadCommunicator& world) { return trained(world, policy); });
  };
  auto const unseen = by(px::NonFinite::propagate);
  CHECK(by(px::NonFinite::error) == unseen);
  CHECK(by(px::NonFinite::skip_step) == unseen);
}

}  // namespace parallax_test::non_finite
