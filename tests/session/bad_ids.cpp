// Indices outside the table, where the variable was told to live with them.
#include <limits>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::bad_ids {
namespace {

using px::grad;

// Trains with bad indices between good ones, and beside it with the good ones alone.
template <class Policy>
void check_dropping(int ranks) {
  auto const results = on_ranks(ranks, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Sgd const rate{.learning_rate = 0.5};
    px::Variable<px::Sparse, Policy> lenient{session, "lenient", {7, 2, px::constant(1)}, rate, px::BadIds::drop_and_count};
    px::Variable<px::Sparse, Policy> strict{session, "strict", {7, 2, px::constant(1)}, rate};
    int wrong = 0;
    for (int step = 0; step < 4; ++step) {
      std::int64_t const good = (world.rank() + step) % 7;
      std::vector<std::int64_t> const ids{-1, good, 7, std::numeric_limits<std::int64_t>::min(), good, 6};
      std::vector<std::int64_t> const kept{good, good, 6};
      std::vector<float> gradient, of_kept;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        float const g = static_cast<float>(static_cast<int>(i) + 1) / 4;
        gradient.insert(gradient.end(), {g, -g});
        if (ids[i] >= 0 && ids[i] < 7) of_kept.insert(of_kept.end(), {g, -g});
      }
      auto const [rows, others] = session.pull(lenient.at(ids), strict.at(kept));
      wrong += rows.dropped() != 3 || rows.size() != others.size() || rows.indices() != 6;
      for (std::size_t const i : {0u, 2u, 3u}) wrong += rows[i][0] != 0 || rows[i][1] != 0 || rows.inverse()[i] != rows.size();
      wrong += rows[1][0] != others[0][0] || rows[5][1] != others[2][1];
      if (step % 2) session.step(grad(rows, gradient), grad(others, of_kept));
      else session.step(grad(lenient, ids, gradient), grad(strict, kept, of_kept));
    }
    auto const one = lenient.local(), other = strict.local();
    for (std::int64_t row = 0; row < one.rows; ++row) wrong += one[row][0] != other[row][0] || one[row][1] != other[row][1];
    wrong += lenient.dropped() != 4 * 3 + 2 * 3;  // pulled, and named in the steps by index
    session.finish();
    return wrong;
  });
  for (int const wrong : results) CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("dropped indices take no part, read as zeros and are counted", "[session][bad_ids]") {
  int const ranks = GENERATE(1, 3);
  check_dropping<px::PsShard>(ranks);
  check_dropping<baseline::NaivePs>(ranks);
  check_dropping<px::AllReduce>(ranks);
}

TEST_CASE("bags do not count the indices that were dropped", "[session][bad_ids][bags]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> table{session, "table", {3, 1, px::constant(2)}, px::Sgd{.learning_rate = 1},
                                 px::BadIds::drop_and_count};
  std::vector<int> const ids{0, 9, 1, 9}, offsets{0, 3, 4};
  auto const bags = session.pull(table.bags(ids, offsets, px::Pool::mean));
  CHECK(bags[0][0] == 2);
  CHECK(bags[1][0] == 0);
  session.step(grad(bags, std::vector<float>{1, 5}));
  CHECK(table.local()[0][0] == 1.5f);
  CHECK(table.local()[1][0] == 1.5f);
  CHECK(table.local()[2][0] == 2.0f);
}

TEST_CASE("a hashed index stands for the same row every time, on every rank", "[session][bad_ids]") {
  auto const results = on_ranks(3, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse> table{session, "table", {50, 1, px::uniform(0, 1)}, px::BadIds::hash};
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 40; ++i) ids.push_back(1000 + 977 * i);
    auto const rows = session.pull(table, ids);
    std::vector<std::int64_t> chosen;
    for (std::size_t i = 0; i < ids.size(); ++i) chosen.push_back(rows.id(rows.inverse()[i]));
    return std::pair{chosen, rows.size()};
  });
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
  CHECK(results[0].second > 20);
}

TEST_CASE("ranks that treat bad indices differently are told so", "[session][bad_ids]") {
  auto const results = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse> table{session, "table", {5, 1}, world.rank() ? px::BadIds::hash : px::BadIds::error};
    return answer_of([&] { auto const rows = session.pull(table, std::vector{1}); });
  });
  CHECK(results[0] == results[1]);
  CHECK(results[0].code == px::Errc::mismatch);
  CHECK(results[0].detail.find("bad ids hash") != std::string::npos);
}

}  // namespace parallax_test::bad_ids
