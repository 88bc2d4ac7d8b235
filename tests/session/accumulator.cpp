// Micro-batches summed on a rank: the step on their accumulation is the step on all of them at once.
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::accumulator {

using px::grad;

TEST_CASE("a step on accumulated micro-batches is the step on their mean", "[session][accumulator]") {
  auto const wrong = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> memory(5, 1.0f), other(5, 1.0f);
    px::Sgd const rate{.learning_rate = 0.5};
    px::Variable<px::Dense> dense{session, "dense", px::bind(memory), rate}, whole{session, "whole", px::bind(other), rate};
    px::Variable<px::Sparse> table{session, "table", {6, 2}, rate}, all{session, "all", {6, 2}, rate};
    px::Variable<px::Sparse> bagged{session, "bagged", {6, 2}, rate};
    px::Accumulator dense_sums{dense};
    px::Accumulator table_sums{table}, bagged_sums{bagged, px::Micro::sum};
    int errors = 0;
    for (int step = 0; step < 3; ++step) {
      std::vector<float> gradient(5), rows;
      std::vector<int> ids;
      std::vector<std::vector<float>> rows_of(4);
      for (int micro = 0; micro < 4; ++micro) {
        std::vector<float> g(5);
        for (int i = 0; i < 5; ++i) g[static_cast<std::size_t>(i)] = static_cast<float>(micro + i * step - world.rank());
        for (std::size_t i = 0; i < 5; ++i) gradient[i] += g[i];
        dense_sums.add(g);
        std::vector<int> const named{micro, (micro + step) % 6, micro};
        auto const [handle, bags] = session.pull(table.at(named), bagged.bags(named, std::vector{0, 1, 3}));
        for (int i = 0; i < 6; ++i) rows_of[static_cast<std::size_t>(micro)].push_back(static_cast<float>(i - micro));
        auto const& r = rows_of[static_cast<std::size_t>(micro)];
        if (micro % 2) table_sums.add(grad(handle, r));
        else table_sums.add(grad(table, named, r));
        bagged_sums.add(grad(bags, std::vector<float>{1, 2, 3, 4}));
        ids.insert(ids.end(), named.begin(), named.end());
        rows.insert(rows.end(), r.begin(), r.end());
      }
      errors += dense_sums.count() != 4 || table_sums.count() != 4;
      for (float& g : gradient) g /= 4;
      for (float& g : rows) g /= 4;
      session.step(dense_sums.grad(), table_sums.grad(), grad(whole, gradient), grad(all, ids, rows), bagged_sums.grad());
      errors += memory != other;
      auto const one = table.local(), two = all.local();
      for (std::int64_t row = 0; row < one.rows; ++row) errors += one[row][0] != two[row][0] || one[row][1] != two[row][1];
    }
    session.step(px::Accumulator{dense}.grad(), px::Accumulator{table}.grad());  // nothing added: nothing moves
    errors += memory != other;
    session.finish();
    auto const local = bagged.local();  // rows 0, 1, 2 and 3 are named first in one bag, third in another, by both ranks
    for (std::int64_t row = 0; row < local.rows; ++row)
      if (bagged.global_row(row) == 5) errors += local[row][0] != -0.5f * 3 || local[row][1] != -0.5f * 4;
    return errors;
  });
  for (int const errors : wrong) CHECK(errors == 0);
}

TEST_CASE("what does not fit is not added", "[session][accumulator]") {
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> memory(3);
  px::Variable<px::Dense> dense{session, "dense", px::bind(memory)};
  px::Variable<px::Sparse> table{session, "table", {6, 2}};
  px::Accumulator sums{dense};
  CHECK(answer_of([&] { sums.add(std::vector<float>(4)); }).detail == "a gradient of 4 elements for a variable of 3");
  sums.add(std::vector<float>{2, 4, 6});
  sums.add(std::vector<float>{2, 4, 6});
  CHECK(sums.grad().gradient[1] == 4);
  CHECK(sums.grad().gradient[1] == 4);  // asked for again, it is what it was
  px::Accumulator rows{table};
  CHECK(answer_of([&] { rows.add(grad(table, std::vector{1, 2}, std::vector<float>(2))); }).code == px::Errc::invalid_argument);
  CHECK(rows.count() == 0);
}

TEST_CASE("rows of a table without width are accumulated as a step takes them", "[session][accumulator]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> thin{session, "thin", {5, 0}};
  std::vector<int> const ids{4, 0, 4};
  std::vector<float> const nothing;
  auto const rows = session.pull(thin, ids);
  px::Accumulator sums{thin};
  CHECK(answer_of([&] { sums.add(grad(thin, ids, nothing)); }).what.empty());
  CHECK(answer_of([&] { sums.add(grad(rows, nothing)); }).what.empty());
  CHECK(answer_of([&] { sums.add(grad(rows, px::distinct(nothing))); }).what.empty());
  CHECK(sums.count() == 3);
  CHECK(sums.grad().ids.size() == 3 + 2 + 2);
  CHECK(session.step(sums.grad()));
  CHECK(thin.steps() == 1);
}

TEST_CASE("the sizes of a gradient's rows are told with what its rows are for", "[session][accumulator]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> table{session, "table", {6, 2}};
  std::vector<int> const ids{3, 1, 3};
  auto const rows = session.pull(table, ids);
  px::Accumulator sums{table};
  auto const detail = [&](auto const& update) {
    Answer const added = answer_of([&] { sums.add(update); }), stepped = answer_of([&] { session.step(update); });
    CHECK(added.detail == stepped.detail);
    CHECK(stepped.code == px::Errc::invalid_argument);
    return stepped.detail;
  };
  CHECK(detail(grad(rows, std::vector<float>(2))) == "gradient rows of 1 x 2 for 3 x 2 pulled or named");
  CHECK(detail(grad(rows, std::vector<float>(3))) == "gradient rows of ? x 2 for 3 x 2 pulled or named");
  CHECK(detail(grad(rows, std::vector<float>(4))) ==
        "gradient rows of 2 x 2 for 3 x 2 pulled or named: px::distinct(rows) gives one for each distinct index");
  std::vector<float> const three(6);
  CHECK(detail(grad(rows, px::distinct(three))) ==
        "gradient rows of 3 x 2 for 2 x 2 by px::distinct, one for each distinct index");
}

TEST_CASE("what is no update of the table is not added: of an empty handle, or of another table", "[session][accumulator]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, px::Sgd> words{session, "words", {4, 2}}, others{session, "others", {4, 2}};
  px::Accumulator sums{words};
  std::vector<int> const ids{1, 2};
  std::vector<float> const rows(4, 1.0f);
  auto handle = session.pull(words, ids);
  auto const moved = std::move(handle);
  Answer const empty = answer_of([&] { sums.add(px::grad(handle, rows)); });
  CHECK(empty.code == px::Errc::misuse);
  CHECK(empty.variable == "words");
  CHECK(empty.detail == "a handle is empty: nothing was pulled, or it was moved");
  CHECK(answer_of([&] { sums.add(px::grad(others, ids, rows)); }).detail == "the update is of another table");
  CHECK(sums.count() == 0);
  sums.add(px::grad(moved, rows));
  CHECK(sums.count() == 1);
  session.finish();
}

}  // namespace parallax_test::accumulator
