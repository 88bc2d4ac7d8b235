// Pulls of a list of tables of one type, however many there are: the handles of as many pulls, by one exchange.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::lists {
namespace {

using Words = px::Variable<px::Sparse, px::Adagrad>;
using Named = decltype(std::declval<Words&>().bags(std::vector<int>{}, std::vector<int>{}));

constexpr int width = 3;

// A training on as many tables as are asked for, pulled by a list, or one by one; what it ends with, and what it took.
struct Ended {
  std::vector<float> rows;
  std::uint64_t transfers = 0;
};
Ended train(px::ThreadCommunicator& world, int tables, bool by_list, bool ahead) {
  px::Session session{world};
  std::deque<Words> words;
  for (int t = 0; t < tables; ++t)
    words.emplace_back(session, "table " + std::to_string(t), px::Table{20 + t, width, px::uniform(-1, 1)});
  std::vector<int> const offsets{0, 1, 1, 4};
  std::vector<float> const gradient(3 * width, 0.5f);
  Ended ended;
  auto const ids_of = [&](int table, int step) {
    std::vector<int> ids;
    for (int i = 0; i < 4; ++i) ids.push_back((5 * world.rank() + 3 * step + table + i * i) % 20);
    return ids;
  };
  for (int step = 0; step < 4; ++step) {
    std::vector<std::vector<int>> ids;
    for (int t = 0; t < tables; ++t) ids.push_back(ids_of(t, step));
    std::vector<Named> batch;
    for (int t = 0; t < tables; ++t)
      batch.push_back(words[static_cast<std::size_t>(t)].bags(ids[static_cast<std::size_t>(t)], offsets, px::Pool::mean));
    std::vector<decltype(session.pull(batch[0]))> bags;
    if (by_list && ahead) {
      auto named = session.prefetch(batch);
      for (auto& of_table : ids) of_table.assign(of_table.size(), -1);  // nobody reads them any more
      bags = session.pull(std::move(named));
    } else if (by_list) {
      bags = session.pull(batch);
    } else {
      for (Named const& one : batch) bags.push_back(session.pull(one));
    }
    if (static_cast<int>(bags.size()) != tables) throw std::runtime_error("another number of handles than of tables");
    px::Updates<Words> updates;
    for (auto const& pooled : bags) {
      auto const values = pooled.values();
      ended.rows.insert(ended.rows.end(), values.data, values.data + values.rows * values.width);
    }
    for (auto const& pooled : bags) session.step(px::grad(pooled, gradient));
  }
  session.finish();
  ended.transfers = session.traffic().transfers;
  return ended;
}

}  // namespace

TEST_CASE("a list of tables is pulled as its tables are one by one, in one exchange", "[session][pull]") {
  for (int const ranks : {1, 3}) {
    for (int const tables : {1, 5}) {
      auto const run = [&](bool by_list, bool ahead) {
        return on_ranks(ranks, [&](px::ThreadCommunicator& world) { return train(world, tables, by_list, ahead); });
      };
      auto const one_by_one = run(false, false), listed = run(true, false), named = run(true, true);
      for (std::size_t rank = 0; rank < one_by_one.size(); ++rank) {
        CHECK(listed[rank].rows == one_by_one[rank].rows);
        CHECK(named[rank].rows == one_by_one[rank].rows);
        // A pull takes an agreement, which tells where ids and rows are read: four pulls for each table, or four in all.
        CHECK(one_by_one[rank].transfers - listed[rank].transfers == static_cast<std::uint64_t>(4 * (tables - 1)));
      }
    }
  }
}

TEST_CASE("a list of no tables is pulled, and ranks whose lists differ are told so", "[session][pull]") {
  auto const answers = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    Words first{session, "first", {10, width}}, second{session, "second", {10, width}};
    std::vector<int> const ids{1, 2};
    using Row = decltype(first.at(ids));
    std::vector<Row> list;
    if (!session.pull(list).empty()) throw std::runtime_error("handles of no table");
    list.push_back(first.at(ids));
    if (world.rank() == 1) list.push_back(second.at(ids));
    Answer const differ = answer_of([&] { static_cast<void>(session.pull(list)); });
    std::vector<int> const wrong{3, 11};
    std::vector<Row> const bad{first.at(ids), second.at(wrong)};
    Answer const outside = answer_of([&] { static_cast<void>(session.pull(bad)); });
    std::vector<Row> const right{first.at(ids), second.at(ids)};
    if (session.pull(right).size() != 2) throw std::runtime_error("the session is not usable any more");
    session.finish();
    return std::vector{differ, outside};
  });
  for (auto const& of_rank : answers) {
    CHECK(of_rank[0].code == px::Errc::mismatch);
    CHECK(of_rank[1].code == px::Errc::bad_id);
    CHECK(of_rank[1].what.find("'second': index 11 at position 1") != std::string::npos);
  }
}

}  // namespace parallax_test::lists
