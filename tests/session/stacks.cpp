// Stacks: tables of one width in one variable, whose bags name rows of their own table. Compared with a variable for each table.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"
#include "parallax/variable/stack.hpp"

namespace parallax_test::stacks {
namespace {

constexpr int width = 3;
std::vector<px::Table> const sizes{
    {20, width, px::uniform(-1, 1)}, {0, width}, {7, width, px::constant(2)}, {33, width, px::uniform(0, 1)}};

template <class Table>
std::vector<float> rows_of(px::RowsView<Table> rows) {
  std::vector<float> values;
  for (std::int64_t r = 0; r < rows.rows; ++r) values.insert(values.end(), rows.row(r), rows.row(r) + rows.width);
  return values;
}
// All rows of a table, by a pull: [rows x width].
template <class Session, class Words>
std::vector<float> table_of(Session& session, Words const& words, std::int64_t first, std::int64_t end) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(end - first));
  std::iota(ids.begin(), ids.end(), first);
  auto const rows = session.pull(words, ids);
  std::vector<float> values;
  for (std::size_t i = 0; i < ids.size(); ++i) values.insert(values.end(), rows[i].begin(), rows[i].end());
  return values;
}

// What a rank saw: pooled rows of every step, the rows at the end, and how many indices were dropped.
struct Seen {
  std::vector<float> pooled, rows;
  std::uint64_t dropped = 0;
};

// The same bags in each step, of as many variables as there are tables, or of a stack of them.
template <class Policy, class P>
std::pair<Seen, Seen> train(px::ThreadCommunicator& world, px::BadIds bad, int bags, std::uint64_t seed) {
  using Words = px::Variable<px::Sparse, Policy, px::Adagrad, P>;
  px::Session session{world};
  Words stack{session, "stack", px::Stack{sizes}, bad};
  std::deque<Words> apart;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    std::int64_t const first = stack.first_row(t), end = stack.first_row(t + 1);
    if (end - first != sizes[t].rows) throw std::runtime_error("a table of another size");
    auto const values = table_of(session, stack, first, end);
    if (t == 2 && values != std::vector<float>(values.size(), 2)) throw std::runtime_error("other first values");
    apart.emplace_back(session, "table " + std::to_string(t), sizes[t], bad);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(end - first));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
    session.assign(apart.back(), ids, px::RowsView<float const>{values.data(), end - first, width});
  }
  std::mt19937_64 random{seed + static_cast<std::uint64_t>(world.rank())};
  Seen together, alone;
  for (int step = 0; step < 4; ++step) {
    std::vector<std::vector<int>> ids(sizes.size()), offsets(sizes.size());
    std::vector<int> all_ids, all_offsets{0};
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      offsets[t].push_back(0);
      for (int bag = 0; bag < bags; ++bag) {
        std::size_t const count = sizes[t].rows == 0 ? 0 : random() % 4;
        for (std::size_t i = 0; i < count; ++i) {
          bool const outside = bad != px::BadIds::error && random() % 5 == 0;
          ids[t].push_back(outside ? 1000 + static_cast<int>(random() % 9)
                                   : static_cast<int>(random() % static_cast<std::uint64_t>(sizes[t].rows)));
        }
        offsets[t].push_back(static_cast<int>(ids[t].size()));
        all_offsets.push_back(static_cast<int>(all_ids.size() + ids[t].size()));
      }
      all_ids.insert(all_ids.end(), ids[t].begin(), ids[t].end());
    }
    std::vector<float> gradient(sizes.size() * static_cast<std::size_t>(bags) * width);
    for (float& g : gradient) g = static_cast<float>(random() % 1000) / 100 - 5;
    auto const pooled = session.pull(stack.bags(all_ids, all_offsets, px::Pool::mean));
    session.step(px::grad(pooled, gradient));
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      auto const values = rows_of(pooled.values(t));
      together.pooled.insert(together.pooled.end(), values.begin(), values.end());
      auto const one = session.pull(apart[t].bags(ids[t], offsets[t], px::Pool::mean));
      auto const expected = rows_of(one.values());
      alone.pooled.insert(alone.pooled.end(), expected.begin(), expected.end());
      session.step(px::grad(one, std::span{gradient}.subspan(t * static_cast<std::size_t>(bags) * width,
                                                             static_cast<std::size_t>(bags) * width)));
    }
  }
  together.rows = table_of(session, stack, 0, stack.rows());
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    auto const values = table_of(session, apart[t], 0, apart[t].rows());
    alone.rows.insert(alone.rows.end(), values.begin(), values.end());
    alone.dropped += apart[t].dropped();
  }
  together.dropped = stack.dropped();
  session.finish();
  return {together, alone};
}

template <class Policy, class P>
void check(int ranks, px::BadIds bad, int bags) {
  std::uint64_t const seed = 3 * static_cast<std::uint64_t>(ranks + bags);
  auto const seen = on_ranks(ranks, [&](px::ThreadCommunicator& world) { return train<Policy, P>(world, bad, bags, seed); });
  for (auto const& [together, alone] : seen) {
    CAPTURE(ranks, px::to_string(bad), bags);
    CHECK(together.pooled == alone.pooled);
    CHECK(together.rows == alone.rows);
    CHECK(together.dropped == alone.dropped);
    CHECK((bad != px::BadIds::drop_and_count || bags < 5 || together.dropped > 0));
  }
}

}  // namespace

TEST_CASE("a stack of tables has the bits of a variable for each of them", "[session][stack]") {
  for (auto const bad : {px::BadIds::error, px::BadIds::drop_and_count, px::BadIds::hash}) {
    check<px::PsShard, px::Cyclic>(3, bad, 5);
    check<px::AllReduce, px::Block>(2, bad, 5);
  }
  check<px::AllGather, px::Hash>(2, px::BadIds::hash, 1);
  check<px::PsShard, px::Block>(1, px::BadIds::error, 0);
}

TEST_CASE("what does not fit a stack is told with its table", "[session][stack]") {
  auto const answers = on_ranks(2, [](px::ThreadCommunicator& world) {
    using Words = px::Variable<px::Sparse>;
    px::Session session{world};
    auto const making = [&](std::vector<px::Table> const& tables) {
      return answer_of([&] { Words const words(session, "wrong", px::Stack{tables}); });
    };
    std::vector<Answer> told{making({}), making({{3, 2}, {4, 5}}), making({{3, 2}, {-4, 2}})};
    Words words{session, "words", px::Stack{{{10, width}, {4, width}}}};
    auto const pulling = [&](std::vector<int> const& ids, std::vector<int> const& offsets) {
      told.push_back(answer_of([&] { static_cast<void>(session.pull(words.bags(ids, offsets))); }));
    };
    pulling({9, 3, world.rank() == 1 ? 5 : 1}, {0, 1, 3});  // row 5 is one of the first table alone
    pulling({9, 3, 1}, {0, 1, 2, 3});
    pulling({9, 3}, {0, 1, 2});
    {
      px::Variable<px::Sparse> const other{session, "other",
                                           px::Stack{{{world.rank() == 0 ? 6 : 5, 1}, {world.rank() == 0 ? 5 : 6, 1}}}};
      told.push_back(answer_of([&] { static_cast<void>(session.pull(words, std::vector<int>{13})); }));
    }
    return told;
  });
  for (auto const& of_rank : answers) {
    CHECK(of_rank[0].detail == "a stack of no tables");
    CHECK(of_rank[1].detail == "tables of one width are stacked: table 0 has 2 elements a row, table 1 has 5");
    CHECK(of_rank[2].detail == "a table of -4 x 2");
    CHECK(of_rank[3].rank == 1);
    CHECK(of_rank[3].detail == "index 5 at position 2 is outside [0, 4) of table 1");
    CHECK(of_rank[4].detail == "3 bags for a stack of 2 tables, which have as many each");
    CHECK(!of_rank[5].refused);
    CHECK(of_rank[6].code == px::Errc::mismatch);
    CHECK(of_rank[6].detail.find("a stack of 2: 6") != std::string::npos);
  }
}

}  // namespace parallax_test::stacks
