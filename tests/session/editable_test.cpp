// Rows of a pull found by id, and rows that a trainer changes itself, beside a map in which every row is moved by hand.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// What each rank's body returns.
template <class Result, class Body>
std::vector<Result> on_ranks(int ranks, Body body) {
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) { results[static_cast<std::size_t>(world.rank())] = body(world); },
                  {.deadline = std::chrono::seconds{30}});
  return results;
}

// Under which a table under Auto goes over to AllGather soon.
px::SessionOptions moving_early() {
  px::Costs costs;
  costs.round = 1;
  return {.choice = {.first_step = 4, .interval = 100, .costs = costs}};
}

using Row = std::vector<double>;
constexpr std::int64_t rows = 23, width = 3;

// What a rank's trainer does with a batch: ids, some of them twice, and what it writes. Every rank can tell it of all.
struct Batch {
  Batch(std::uint64_t seed, int step, int rank) {
    std::mt19937_64 random{seed * 1'000'003 + static_cast<std::uint64_t>(step * 16 + rank)};
    std::size_t const count = random() % 4 == 0 ? 0 : random() % 9;
    for (std::size_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<std::int64_t>(random() % rows));
      for (std::int64_t c = 0; c < width; ++c) added.push_back(static_cast<double>(random() % 65) / 8 - 4);
      halves.push_back(random() % 4 == 0);
    }
  }
  // Index after index, as word2vec does: what an index finds may have been written for another one.
  template <class RowOf>
  void train(RowOf&& row_of) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      auto&& row = row_of(i);
      for (std::size_t c = 0; c < width; ++c) row[c] = (halves[i] ? row[c] / 2 : row[c]) + added[i * width + c];
    }
  }
  std::vector<std::int64_t> ids;
  std::vector<double> added;
  std::vector<char> halves;
};

// All rows, moved by hand: each rank's trainer has a copy of the table as its batch found it, and what it changed is added.
class ByHand {
 public:
  explicit ByHand(px::Reduce reduce) : reduce_{reduce} {
    for (std::int64_t id = 0; id < rows; ++id) values_[id] = Row(width, 1.0);
  }
  std::map<std::int64_t, Row> const& values() const { return values_; }
  void add(std::map<std::int64_t, Row> const& found, std::vector<Batch> const& batches) {
    std::map<std::int64_t, Row> changes;
    std::map<std::int64_t, double> named;
    for (Batch const& batch : batches) {
      auto copy = found;
      batch.train([&](std::size_t i) -> Row& { return copy.at(batch.ids[i]); });
      for (auto const& [id, row] : copy)
        for (std::size_t c = 0; c < width; ++c)
          changes.try_emplace(id, Row(width)).first->second[c] += row[c] - found.at(id)[c];
      for (auto const id : batch.ids) ++named[id];
    }
    for (auto const& [id, change] : changes) {
      double const by = reduce_ == px::Reduce::sum    ? 1
                        : reduce_ == px::Reduce::mean ? static_cast<double>(batches.size())
                                                      : named[id];
      for (std::size_t c = 0; c < width && by > 0; ++c) values_[id][c] += change[c] / by;
    }
  }
  void subtract(std::int64_t id, double by) {
    for (double& value : values_.at(id)) value -= by;
  }

 private:
  px::Reduce reduce_;
  std::map<std::int64_t, Row> values_;
};

// Empty, or where a table differs from the rows by hand after some steps.
template <class Policy>
std::string complaint(px::ThreadCommunicator& world, std::uint64_t seed, px::Reduce reduce) {
  px::Session session{world, moving_early()};
  px::Variable<px::Sparse, Policy, px::Subtract, double> table{session, "table", {rows, width, px::constant(1)}, reduce};
  ByHand by_hand{reduce};
  std::string const about = std::string{Policy::name} + ", " + std::string{px::to_string(reduce)} + ", seed " +
                            std::to_string(seed) + ", rank " + std::to_string(world.rank()) + ", step ";
  double const most = reduce == px::Reduce::mean_by_count ? 1e-12 : 0;
  for (int step = 0; step < 10; ++step) {
    std::vector<Batch> batches;
    for (int rank = 0; rank < world.size(); ++rank) batches.emplace_back(seed, step, rank);
    Batch const& mine = batches[static_cast<std::size_t>(world.rank())];
    auto edited = session.pull(table, mine.ids).editable();
    auto const found = by_hand.values();
    if (step % 3 == 1) {  // another step comes between, and what it did stays
      session.step(px::grad(table, std::vector<int>{4}, std::vector<double>(width, 2.0)));
      by_hand.subtract(4, reduce == px::Reduce::sum ? 2.0 * world.size() : 2.0);
    }
    mine.train([&](std::size_t i) { return edited[i]; });
    if (step % 2 == 0) {
      session.step(px::grad(edited, px::difference));
    } else {
      session.start(px::grad(edited, px::difference));
      session.step();
    }
    by_hand.add(found, batches);
    std::vector<std::int64_t> all;
    for (std::int64_t id = 0; id < rows; ++id) all.push_back(id);
    auto const now = session.pull(table, all);
    for (std::int64_t id = 0; id < rows; ++id)
      for (std::size_t c = 0; c < width; ++c) {
        double const is = now[static_cast<std::size_t>(id)][c], should = by_hand.values().at(id)[c];
        if (is - should > most || should - is > most)
          return about + std::to_string(step) + ": row " + std::to_string(id) + " is " + std::to_string(is) + " for " +
                 std::to_string(should);
      }
    for (std::size_t i = 0; i < mine.ids.size(); ++i)
      for (std::size_t c = 0; c < width; ++c)
        if (edited.pulled()[i][c] != found.at(mine.ids[i])[c])
          return about + std::to_string(step) + ": the rows as they were pulled have changed";
  }
  session.finish();
  return {};
}

}  // namespace

TEST_CASE("what trainers change in their rows is added to the table, under every policy and reduction", "[session][editable]") {
  std::uint64_t seed = 0;
  for (int const ranks : {1, 2, 4})
    for (px::Reduce const reduce : {px::Reduce::sum, px::Reduce::mean, px::Reduce::mean_by_count}) {
      ++seed;
      auto const said = on_ranks<std::string>(ranks, [&](auto& world) {
        std::string all = complaint<px::PsShard>(world, seed, reduce) + complaint<px::AllGather>(world, seed, reduce);
        all += complaint<px::AllReduce>(world, seed, reduce);
        return all + complaint<px::Auto>(world, seed, reduce);
      });
      CHECK(said == std::vector<std::string>(said.size()));
    }
}

TEST_CASE("rows of indices outside the table may be written, and are not sent", "[session][editable]") {
  auto const seen = on_ranks<Row>(2, [](auto& world) {
    px::Session session{world};
    px::Variable<px::Sparse, px::Subtract, double> table{
        session, "table", {4, 1, px::constant(1)}, px::Reduce::sum, px::BadIds::drop_and_count};
    auto edited = session.pull(table, std::vector{9, 3, -1}).editable();
    Row result{edited[0][0], edited[2][0]};
    edited[0][0] = 7;
    edited[1][0] = 5;
    session.step(px::grad(edited, px::difference));
    for (double const value : {session.pull(table, std::vector{0})[0][0], session.pull(table, std::vector{3})[0][0]})
      result.push_back(value);
    session.finish();
    return result;
  });
  for (auto const& result : seen) CHECK(result == Row{0, 0, 1, 9});
}

TEST_CASE("rows that were brought ahead are edited as others, with a gradient beside the difference", "[session][editable]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, px::Subtract, double> table{session, "table", {4, 1, px::constant(1)}};
  auto next = session.prefetch(table, std::vector{2, 2});
  session.step();
  auto edited = session.pull(std::move(next)).editable();
  edited.find(2)[0] = 4;
  CHECK(edited[1][0] == 4);
  session.step(px::grad(edited, px::difference), px::grad(edited, std::vector<double>{8, 8}));
  CHECK(session.pull(table, std::vector{2})[0][0] == 4 - 16);
  auto [first, second] = session.pull(table.at(std::vector{1}), table.at(std::vector{3}));
  auto both = std::move(second).editable();
  both[0][0] = 6;
  std::vector<double> const one{1};
  px::Updates<decltype(table)> updates{px::grad(first, one), px::grad(both, px::difference)};
  session.step(updates);
  CHECK(session.pull(table, std::vector{1})[0][0] == 0);
  CHECK(session.pull(table, std::vector{3})[0][0] == 6);
  px::EditableRows<decltype(table)::State> empty;
  CHECK_THROWS_WITH(session.step(px::grad(empty, px::difference)),
                    "parallax: misuse (rank 0) in step: a handle is empty: nothing was pulled, or it was moved");
  session.finish();
}

TEST_CASE("the next pull's copy is of its own rows, whoever had the memory before", "[session][editable]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, px::Subtract> table{session, "table", {9, 2, px::constant(1)}};
  std::optional kept{session.pull(table, std::vector{1, 2, 3}).editable()};
  (*kept)[0][0] = 50;
  auto other = session.pull(table, std::vector{1}).editable();  // while the first is held
  CHECK(other[0][0] == 1);
  other[0][0] = 3;
  CHECK((*kept)[0][0] == 50);
  kept.reset();
  auto again = session.pull(table, std::vector{3, 2, 1, 0}).editable();
  for (std::size_t i = 0; i < 4; ++i) CHECK(again[i][0] == 1);
  session.step(px::grad(again, px::difference), px::grad(other, px::difference));
  CHECK(session.pull(table, std::vector{1})[0][0] == 3);
  session.finish();
}

namespace {

// How many ids a pull finds wrongly: in a plain map from the ids that it asked for to the memory that the first of them shows.
template <class Rows>
int found_wrongly(Rows const& pulled, std::vector<std::int64_t> const& ids) {
  std::map<std::int64_t, float const*> first;
  for (std::size_t i = 0; i < ids.size(); ++i) first.try_emplace(ids[i], pulled[i].data());
  int wrong = 0;
  for (std::int64_t id = -5; id < 45; ++id) {
    auto const row = pulled.find(id);
    auto const known = first.find(id);
    if (known == first.end()) wrong += !row.empty();
    else wrong += row.data() != known->second || row.size() != 2;
  }
  return wrong;
}

template <class Partitioner, class Policy = px::PsShard>
int found_wrongly_on(px::ThreadCommunicator& world, std::uint64_t seed) {
  px::Session session{world, moving_early()};
  px::Variable<px::Sparse, Policy, Partitioner> table{session, "table", {40, 2, px::uniform(-1, 1)}};
  std::mt19937_64 random{seed + static_cast<std::uint64_t>(world.rank())};
  int wrong = 0;
  std::vector<std::int64_t> before;
  px::PulledRows<typename decltype(table)::State> old;
  for (int step = 0; step < 8; ++step) {
    std::vector<std::int64_t> ids(random() % 30);
    for (auto& id : ids) id = static_cast<std::int64_t>(random() % 40);
    auto pulled = session.pull(table, ids);
    wrong += found_wrongly(pulled, ids);
    session.step(px::grad(pulled, std::vector<float>(2 * ids.size(), 1.0f)));
    if (step > 0) wrong += found_wrongly(old, before);  // also when its rows have moved
    old = std::move(pulled);
    before = std::move(ids);
  }
  old = {};
  session.finish();
  return wrong;
}

}  // namespace

TEST_CASE("a pull finds the rows of the ids that it asked for, and no others", "[session][find]") {
  for (int const ranks : {1, 3}) {
    std::uint64_t const seed = 11;
    INFO("seed " << seed);
    auto const wrong = on_ranks<int>(ranks, [&](auto& world) {
      return found_wrongly_on<px::Cyclic>(world, seed) + found_wrongly_on<px::Hash>(world, seed) +
             found_wrongly_on<px::Block>(world, seed) + found_wrongly_on<px::Cyclic, px::Auto>(world, seed) +
             found_wrongly_on<px::Hash, px::AllGather>(world, seed);
    });
    CHECK(wrong == std::vector<int>(wrong.size()));
  }
}

TEST_CASE("rows are found, and what was changed in them is sent, also where they have moved since", "[session][editable]") {
  struct Result {
    int wrong = 0, moved = 0;
    std::vector<float> table;
  };
  constexpr int ranks = 3, steps = 12;
  auto const ids_of = [](int rank, int step) {
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 6; ++i) ids.push_back((7 * rank + 5 * step + i * i) % 40);
    return ids;
  };
  auto const results = on_ranks<Result>(ranks, [&](auto& world) {
    px::SessionOptions options;
    options.choice.costs.round = 1e-6, options.choice.costs.per_byte = 1e-9;
    px::Session session{world, options};
    px::Variable<px::Sparse, px::Auto, px::Subtract> table{session, "table", {40, 2}, px::Reduce::sum};
    session.search_pieces(table, {.steps = 3, .settling = 0});  // rows go to other owners after steps 3 and 6
    Result result;
    for (int step = 0; step < steps; ++step) {
      auto const ids = ids_of(world.rank(), step);
      auto edited = session.pull(table, ids).editable();
      for (std::size_t i = 0; i < ids.size(); ++i) edited[i][1] += 0.5f;
      session.step(px::grad(table, ids, std::vector<float>(12, -1.0f)));  // rows may move now
      result.moved += edited.plan()->retired;
      result.wrong += found_wrongly(edited, ids);
      session.step(px::grad(edited, px::difference));
    }
    std::vector<std::int64_t> all(40);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    auto const pulled = session.pull(table, all);
    for (std::size_t i = 0; i < all.size(); ++i) result.table.insert(result.table.end(), pulled[i].begin(), pulled[i].end());
    session.finish();
    return result;
  });
  std::vector<float> expected(80);
  for (int step = 0; step < steps; ++step)
    for (int rank = 0; rank < ranks; ++rank)
      for (auto const id : ids_of(rank, step)) {
        expected[static_cast<std::size_t>(2 * id)] += 1;
        expected[static_cast<std::size_t>(2 * id + 1)] += 1.5f;
      }
  for (Result const& result : results) {
    CHECK(result.wrong == 0);
    CHECK(result.moved > 0);
    CHECK(result.table == expected);
  }
}

TEST_CASE("an id outside the table finds what its index was treated as", "[session][find]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> hashed{session, "hashed", {6, 1, px::uniform(-1, 1)}, px::BadIds::hash};
  px::Variable<px::Sparse> dropped{session, "dropped", {6, 1, px::uniform(-1, 1)}, px::BadIds::drop_and_count};
  std::vector<int> const ids{4, 77, -3};
  auto const rows_of_hashed = session.pull(hashed, ids), rows_of_dropped = session.pull(dropped, ids);
  for (std::size_t i = 0; i < 3; ++i) CHECK(rows_of_hashed.find(ids[i]).data() == rows_of_hashed[i].data());
  CHECK(rows_of_dropped.find(4).data() == rows_of_dropped[0].data());
  CHECK(rows_of_dropped.find(77).empty());
  CHECK(rows_of_dropped.find(-3).empty());
  px::Variable<px::Sparse> nothing{session, "nothing", {0, 3}, px::BadIds::hash};
  CHECK(session.pull(nothing, std::vector<int>{}).find(0).empty());
  session.finish();
}
