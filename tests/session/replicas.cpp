// Replicas that do not begin alike: a forgotten broadcast is an error on all ranks at the first update, and names the variable.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::replicas {
namespace {

using px::grad;

constexpr int ranks = 3;
std::vector<float> const gradient(4, 1.0f);
std::vector<int> const ids{1, 0};

// What every rank answered to a first update of replicas of which rank 1's last value is another, and whether training went on
// after a broadcast, or, where nothing was refused, as it was.
struct Seen {
  std::vector<Answer> answers = std::vector<Answer>(ranks), after = std::vector<Answer>(ranks);
  std::vector<std::vector<float>> values = std::vector<std::vector<float>>(ranks);
};

// `update(session, variable)` is the first update.
template <class Policy, class Update>
Seen dense(px::SessionOptions const& options, Update&& update) {
  Seen seen;
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto const r = static_cast<std::size_t>(world.rank());
    px::Session session{world, options};
    std::vector<float> same(4, 2.0f), own(4, 1.0f);
    if (world.rank() == 1) own[3] = -1.0f;
    px::Variable<px::Dense, px::AllReduce> first{session, "first", px::bind(same)};
    px::Variable<px::Dense, Policy> layer{session, "layer", px::bind(own)};
    session.step(grad(first, gradient));
    seen.answers[r] = answer_of([&] { update(session, layer); });
    seen.values[r] = own;
    if (seen.answers[r].refused) {
      session.broadcast(layer);
      seen.after[r] = answer_of([&] { session.step(grad(first, gradient), grad(layer, gradient)); });
      seen.values[r].insert(seen.values[r].end(), own.begin(), own.end());
    }
    session.finish();
  }, patient);
  return seen;
}

void check_refused(Seen const& seen, std::string const& variable) {
  for (int rank = 0; rank < ranks; ++rank) {
    INFO("rank " << rank << ": " << seen.answers[static_cast<std::size_t>(rank)].what);
    auto const& answer = seen.answers[static_cast<std::size_t>(rank)];
    CHECK(answer == seen.answers[0]);
    CHECK(answer.code == px::Errc::mismatch);
    CHECK(answer.rank == 1);
    CHECK(answer.variable == variable);
    CHECK_THAT(answer.detail, contains("rank 1 has «" + variable + " first values of checksum "));
    CHECK_THAT(answer.detail, contains("; Session::broadcast makes them those of rank 0», rank 0 and 1 more have «"));
    CHECK(!seen.after[static_cast<std::size_t>(rank)].refused);
  }
}

TEST_CASE("the first update of replicas that differ is refused, and works after a broadcast", "[session][replicas]") {
  auto const check = [](Seen const& seen) {
    check_refused(seen, "layer");
    for (int rank = 0; rank < ranks; ++rank) {
      float const last = rank == 1 ? -1.0f : 1.0f;
      CHECK(seen.values[static_cast<std::size_t>(rank)] == std::vector<float>{1, 1, 1, last, 0.99f, 0.99f, 0.99f, 0.99f});
    }
  };
  SECTION("by step") {
    check(dense<px::AllReduce>({}, [](auto& session, auto& layer) { session.step(grad(layer, gradient)); }));
  }
  SECTION("by start") {
    check(dense<px::AllReduce>({}, [](auto& session, auto& layer) {
      session.start(grad(layer, gradient));
      session.step();
    }));
  }
  SECTION("of a rank that has joined") {
    check(dense<px::AllReduce>({}, [](auto& session, auto& layer) {
      if (session.rank() != 2) session.step(grad(layer, gradient));
      else session.join([&] { session.step(grad(layer, std::vector<float>{})); });
    }));
  }
}

TEST_CASE("replicas that differ are not looked at where that is turned off, nor where owners deal the values",
          "[session][replicas]") {
  auto const first = [](auto& session, auto& layer) { session.step(grad(layer, gradient)); };
  Seen const off = dense<px::AllReduce>({.compare_replicas = false}, first);
  Seen const owned = dense<px::PsShard>({}, first);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CHECK(!off.answers[rank].refused);
    CHECK(off.values[rank] == std::vector<float>{0.99f, 0.99f, 0.99f, rank == 1 ? -1.01f : 0.99f});
    CHECK(!owned.answers[rank].refused);
    CHECK(owned.values[rank] == owned.values[0]);
  }
}

TEMPLATE_TEST_CASE("replicas of a table are compared as well", "[session][replicas]", px::AllReduce, px::AllGather) {
  Seen seen;
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto const r = static_cast<std::size_t>(world.rank());
    px::Session session{world};
    std::vector<float> own(8, 1.0f);
    if (world.rank() == 1) own[7] = 0.0f;
    px::Variable<px::Sparse, TestType> table{session, "table", px::bind_rows(own, 2)};
    px::Variable<px::Sparse, TestType> made{session, "made", {.rows = 4, .width = 2, .initial = px::uniform(-1, 1)}};
    session.step(grad(made, ids, gradient));
    seen.answers[r] = answer_of([&] { session.step(grad(table, ids, gradient)); });
    session.broadcast(table);
    seen.after[r] = answer_of([&] { session.step(grad(table, ids, gradient)); });
    if (world.rank() == 1) own[7] = 5.0f;  // the first update is compared, and no later one
    session.step(grad(table, ids, gradient));
    session.finish();
  }, patient);
  check_refused(seen, "table");
}

TEST_CASE("the first step of replicas sends as many messages whether they are compared or not", "[session][replicas]") {
  using Sent = std::array<std::uint64_t, 2>;  // messages, transfers
  auto const sent = [](bool compares) {
    return on_ranks(ranks, [&](px::ThreadCommunicator& world) {
      px::Session session{world, {.compare_replicas = compares}};
      std::vector<float> memory(4, 1.0f);
      px::Variable<px::Dense, px::AllReduce> layer{session, "layer", px::bind(memory)};
      px::Variable<px::Sparse, px::AllGather> table{session, "table", {.rows = 4, .width = 2, .initial = px::uniform(-1, 1)}};
      session.step(grad(layer, gradient), grad(table, ids, gradient));
      Sent const first{session.traffic().messages, session.traffic().transfers};
      session.finish();
      return first;
    });
  };
  auto const compared = sent(true);
  CHECK(compared == sent(false));
  for (Sent const& each : compared) CHECK((each[0] > 0 && each[1] > 0));
}

// Takes steps of a dense variable and of a table of a policy that replicates. Rank 1 has another value of `entry`'s result
// after so many steps, and its own again two steps later. Returns, by rank, what the steps from there on answered.
template <class Policy, class Entry>
std::vector<std::vector<Answer>> gone_astray(int after, px::SessionOptions options, Entry&& entry) {
  std::vector<std::vector<Answer>> answers(ranks);
  auto const body = [&](px::ThreadCommunicator& world) {
    px::Session session{world, options};
    std::vector<float> memory(4, 1.0f);
    px::Variable<px::Dense, px::AllReduce, px::Momentum> layer{session, "layer", px::bind(memory)};
    px::Variable<px::Sparse, Policy, px::Adam> table{session, "table", {.rows = 9, .width = 2, .initial = px::uniform(-1, 1)}};
    auto const step = [&](int turn) {
      // A rank that reads other rows than the others has settled other ones.
      std::vector<int> const named{turn % 9, (turn + 1) % 9}, read{(turn * (world.rank() + 2)) % 9};
      static_cast<void>(session.pull(table, read));
      session.step(grad(layer, gradient), grad(table, named, gradient));
    };
    for (int turn = 0; turn < after; ++turn) step(turn);
    auto& mine = answers[static_cast<std::size_t>(world.rank())];
    float& value = entry(memory, layer, table);
    float const before = value;
    if (world.rank() == 1) value = before + 1;
    for (int time = 0; time < 2; ++time) mine.push_back(answer_of([&] { step(after); }));
    if (world.rank() == 1) value = before;
    for (int time = 0; time < 2; ++time) mine.push_back(answer_of([&] { step(after + time); }));
    session.finish();
  };
  px::run_threads(ranks, body, patient);
  return answers;
}

TEMPLATE_TEST_CASE("replicas that go astray are found at every so many updates, in values and in slots", "[session][replicas]",
                   px::AllReduce, px::AllGather) {
  auto const check = [](std::string const& variable, auto&& entry) {
    auto const answers = gone_astray<TestType>(4, {.compare_replicas_every = 2}, entry);
    for (auto const& mine : answers) {
      for (std::size_t i : {0u, 1u}) {
        INFO(mine[i].what);
        CHECK(mine[i] == answers[0][i]);
        CHECK(mine[i].code == px::Errc::mismatch);
        CHECK(mine[i].rank == 1);
        CHECK(mine[i].variable == variable);
        CHECK_THAT(mine[i].detail, contains("rank 1 has «" + variable + " values and slots of checksum "));
      }
      CHECK(!mine[2].refused);
      CHECK(!mine[3].refused);
    }
    for (auto const& mine : gone_astray<TestType>(3, {.compare_replicas_every = 2}, entry)) {
      CHECK(!mine[0].refused);  // after three updates nobody looks
      CHECK(mine[1].refused);
    }
    for (auto const& mine : gone_astray<TestType>(4, {}, entry))  // nor unless it is asked for
      for (Answer const& one : mine) CHECK(!one.refused);
  };
  check("layer", [](auto& memory, auto&, auto&) -> float& { return memory[2]; });
  check("layer", [](auto&, auto& layer, auto&) -> float& { return layer.template slot<float>("v")[3]; });
  check("table", [](auto&, auto&, auto& table) -> float& { return table.local().row(7)[1]; });
  check("table", [](auto&, auto&, auto& table) -> float& { return table.template slot<float>("v").row(7)[1]; });
}

TEST_CASE("replicas that are compared now and then send nothing for it", "[session][replicas]") {
  auto const sent = [](std::int64_t every) {
    return on_ranks(ranks, [&](px::ThreadCommunicator& world) {
      px::Session session{world, {.compare_replicas_every = every}};
      px::Variable<px::Sparse, px::AllGather, px::Adam> table{session, "table", {.rows = 4, .width = 2}};
      for (int turn = 0; turn < 5; ++turn) session.step(grad(table, ids, gradient));
      std::array<std::uint64_t, 3> const all{session.traffic().messages, session.traffic().transfers,
                                             session.traffic().sent_of(px::Payload::control).all};
      session.finish();
      return all;
    });
  };
  CHECK(sent(1) == sent(0));
}

}  // namespace
}  // namespace parallax_test::replicas
