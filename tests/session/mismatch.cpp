// Ranks that made different variables, declared different topologies or lost step: told apart, named, and nothing changed.
#include <optional>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::mismatch {
namespace {

using px::grad;

std::vector<float> const gradient(4, 1.0f);
std::vector<int> const ids{1, 0};

struct Difference {
  std::string name, variable, detail;
  Answer (*provoke)(px::ThreadCommunicator& world, bool bad);
};

template <class Variable>
Answer step_on(px::Session<px::ThreadCommunicator>& session, Variable const& variable) {
  return answer_of([&] { session.step(grad(variable, gradient)); });
}

// Each makes its variables another way on the rank that is `bad`, and is refused at the first collective call.
std::vector<Difference> const differences{
    {"another order", "", "has «",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       std::vector<float> a(4), b(4);
       px::Variable<px::Dense> first{session, bad ? "b" : "a", px::bind(a)}, second{session, bad ? "a" : "b", px::bind(b)};
       return step_on(session, first);
     }},
    {"a variable that one rank misses", "late", "nothing",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       std::vector<float> a(4), b(4);
       px::Variable<px::Dense> first{session, "a", px::bind(a)};
       std::optional<px::Variable<px::Dense>> second;
       if (!bad) second.emplace(session, "late", px::bind(b));
       return answer_of([&] { session.finish(); });
     }},
    {"a variable that one rank has too many", "extra", "nothing",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       std::vector<float> a(4), b(4);
       px::Variable<px::Dense> first{session, "a", px::bind(a)};
       std::optional<px::Variable<px::Dense>> second;
       if (bad) second.emplace(session, "extra", px::bind(b));
       return answer_of([&] { session.finish(); });
     }},
    {"another size", "a", "Dense float of 5",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       std::vector<float> a(bad ? 5 : 4), g(a.size());
       px::Variable<px::Dense> first{session, "a", px::bind(a)};
       return answer_of([&] { session.step(grad(first, g)); });
     }},
    {"another scalar", "a", "Dense double",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       std::vector<float> a(4);
       std::vector<double> b(4);
       std::optional<px::Variable<px::Dense>> first;
       std::optional<px::Variable<px::Dense, double>> second;
       if (bad) second.emplace(session, "a", px::bind(b));
       else first.emplace(session, "a", px::bind(a));
       return answer_of([&] { session.finish(); });
     }},
    {"another reduction", "a", ", sum",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       std::vector<float> a(4);
       px::Variable<px::Dense> first{session, "a", px::bind(a), bad ? px::Reduce::sum : px::Reduce::mean};
       return step_on(session, first);
     }},
    {"another policy", "a", "by PsShard",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       std::vector<float> a(4);
       std::optional<px::Variable<px::Dense>> replicated;
       std::optional<px::Variable<px::Dense, px::PsShard>> sharded;
       if (bad) sharded.emplace(session, "a", px::bind(a));
       else replicated.emplace(session, "a", px::bind(a));
       return answer_of([&] { session.finish(); });
     }},
    {"another width", "table", "Sparse float of 6 x 3",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       px::Variable<px::Sparse> table{session, "table", {6, bad ? 3 : 2}};
       return answer_of([&] { auto const rows = session.pull(table, ids); });
     }},
    {"another number of rows", "table", "Sparse float of 7 x 2",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       px::Variable<px::Sparse> table{session, "table", {bad ? 7 : 6, 2}};
       return answer_of([&] { auto const rows = session.pull(table, ids); });
     }},
    {"another number of pieces", "table", "Cyclic{8}",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       px::Variable<px::Sparse> table{session, "table", {6, 2}, px::Cyclic{.pieces = bad ? 8 : 0}};
       return answer_of([&] { auto const rows = session.pull(table, ids); });
     }},
    {"another index type", "table", "by int32",
     [](px::ThreadCommunicator& world, bool bad) {
       px::Session session{world};
       std::optional<px::Variable<px::Sparse>> wide;
       std::optional<px::Variable<px::Sparse, px::Index<std::int32_t>>> narrow;
       if (bad) narrow.emplace(session, "table", px::Table{6, 2});
       else wide.emplace(session, "table", px::Table{6, 2});
       return answer_of([&] { session.finish(); });
     }},
};

}  // namespace

TEST_CASE("variables that differ are refused at the first collective call, naming rank and variable", "[session]") {
  int const ranks = GENERATE(2, 3, 4);
  for (Difference const& difference : differences)
    for (int culprit = 0; culprit < ranks; ++culprit) {
      INFO(difference.name << " on rank " << culprit << " of " << ranks);
      auto const answers =
          on_ranks(ranks, [&](auto& world) { return difference.provoke(world, world.rank() == culprit); });
      INFO(answers[0].what);
      CHECK(answers[0].code == px::Errc::mismatch);
      CHECK(answers[0].rank == (ranks == 2 ? 1 : culprit));
      if (!difference.variable.empty() && ranks > 2) CHECK(answers[0].variable == difference.variable);
      CHECK_THAT(answers[0].detail, contains(difference.detail));
      for (Answer const& answer : answers) CHECK(answer == answers[0]);
    }
}

TEST_CASE("topologies that differ are refused with both", "[session]") {
  auto const answers = on_ranks(4, [](px::ThreadCommunicator& world) {
    bool const bad = world.rank() == 2;
    px::Session session{px::Topology{world, bad ? std::vector{0, 0, 0, 1} : std::vector{0, 0, 1, 1}}};
    return answer_of([&] { session.finish(); });
  });
  CHECK(answers[0].code == px::Errc::mismatch);
  CHECK(answers[0].rank == 2);
  CHECK(answers[0].detail == "rank 2 has «hosts 0 0 0 1 in 2 hops», rank 0 and 2 more have «hosts 0 0 1 1 in 2 hops»");
  for (Answer const& answer : answers) CHECK(answer == answers[0]);
}

TEST_CASE("after a mismatch of variables nothing has changed, and the communicator serves a new session", "[session]") {
  auto const values = on_ranks(3, [](px::ThreadCommunicator& world) {
    std::vector<float> memory(4, 2.0f);
    std::vector<Answer> answers;
    {
      px::Session session{world};
      px::Variable<px::Dense> a{session, world.rank() == 1 ? "x" : "a", px::bind(memory)};
      for (int i = 0; i < 3; ++i) answers.push_back(step_on(session, a));
    }
    bool const unchanged = memory == std::vector<float>(4, 2.0f) && answers[0].refused && answers[2].refused;
    px::Session session{world};
    px::Variable<px::Dense> a{session, "a", px::bind(memory), px::Sgd{.learning_rate = 1}};
    session.step(grad(a, gradient));
    session.finish();
    return unchanged ? memory[3] : -1.0f;
  });
  for (float const value : values) CHECK(value == 1.0f);
}

TEST_CASE("ranks that started different numbers of updates are told, and the session says that it is poisoned", "[session]") {
  int const ranks = GENERATE(2, 3, 4);
  int const operation = GENERATE(0, 1, 2);
  for (int culprit = 0; culprit < ranks; ++culprit) {
    INFO("operation " << operation << ", rank " << culprit << " of " << ranks);
    struct Seen {
      Answer first, later;
      bool unchanged = false;
    };
    auto const seen = on_ranks(ranks, [&](px::ThreadCommunicator& world) {
      px::Session session{world};
      std::vector<float> memory(4, 2.0f);
      px::Variable<px::Dense> a{session, "a", px::bind(memory)};
      px::Variable<px::Sparse> table{session, "table", {6, 2}};
      session.step(grad(a, gradient));
      auto const before = memory;
      if (world.rank() == culprit) session.start(grad(a, gradient));
      session.poll();
      Seen result;
      result.first = answer_of([&] {
        if (operation == 0) session.step(grad(a, gradient));
        else if (operation == 1) auto const rows = session.pull(table, ids);
        else session.finish();
      });
      result.later = answer_of([&] { session.step(grad(a, gradient)); });
      result.unchanged = memory == before;
      return result;
    });
    INFO(seen[0].first.what);
    CHECK((seen[0].first.code == px::Errc::mismatch || operation == 2));
    if (operation < 2) CHECK(seen[0].first.rank == (ranks == 2 ? 1 : culprit));
    CHECK(seen[0].later.code == px::Errc::poisoned);
    for (Seen const& each : seen) {
      CHECK(each.first == seen[0].first);
      CHECK(each.later.code == px::Errc::poisoned);
      CHECK(each.unchanged);
    }
  }
}

}  // namespace parallax_test::mismatch
