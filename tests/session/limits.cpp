// The edges of what a session takes: empty and tiny tables, many tables, many updates, variables and sessions that move.
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::limits {
namespace {

using px::grad;

using Session = px::Session<px::ThreadCommunicator>;
constexpr auto plain = px::Sgd{.learning_rate = 1};

// A table of every policy; `sum` keeps the arithmetic exact.
struct Tables {
  Tables(Session& session, std::int64_t rows, std::int64_t width)
      : shard{session, "shard", {rows, width}, plain, px::Reduce::sum},
        naive{session, "naive", {rows, width}, plain, px::Reduce::sum},
        gather{session, "gather", {rows, width}, plain, px::Reduce::sum},
        dense{session, "dense", {rows, width}, plain, px::Reduce::sum} {}
  px::Variable<px::Sparse> shard;
  px::Variable<px::Sparse, baseline::NaivePs> naive;
  px::Variable<px::Sparse, px::AllGather> gather;
  px::Variable<px::Sparse, px::AllReduce> dense;
};

template <class Variable, class T = typename Variable::scalar_type>
std::vector<T> all_rows(Session& session, Variable const& variable) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(variable.rows()));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  auto const rows = session.pull(variable, ids);
  std::vector<T> result;
  for (std::size_t i = 0; i < ids.size(); ++i) result.insert(result.end(), rows[i].begin(), rows[i].end());
  return result;
}

}  // namespace

TEST_CASE("more ranks than rows, under every policy", "[session][limits]") {
  auto const results = on_ranks(4, [](px::ThreadCommunicator& world) {
    Session session{world};
    Tables tables{session, 2, 3};
    std::vector<int> const ids{1};
    std::vector<float> const row{1, 2, 4};
    auto const [a, b, c, d] =
        session.pull(tables.shard.at(ids), tables.naive.at(ids), tables.gather.at(ids), tables.dense.at(ids));
    session.step(grad(a, row), grad(b, row), grad(c, row), grad(d, row));
    std::vector<std::vector<float>> result{all_rows(session, tables.shard), all_rows(session, tables.naive),
                                           all_rows(session, tables.gather), all_rows(session, tables.dense)};
    session.finish();
    return result;
  });
  for (auto const& of_rank : results)
    for (auto const& table : of_rank) CHECK(table == std::vector<float>{0, 0, 0, -4, -8, -16});
}

TEST_CASE("tables of no rows and of no width, and dense variables of no elements, take part", "[session][limits]") {
  int const ranks = GENERATE(1, 3);
  auto const steps = on_ranks(ranks, [](px::ThreadCommunicator& world) {
    Session session{world};
    Tables no_rows{session, 0, 3};
    std::vector<float> nothing;
    px::Variable<px::Dense> empty{session, "empty", px::bind(nothing)};
    px::Variable<px::Dense, px::PsShard, px::Adam> empty_shard{session, "empty shard", px::bind(nothing)};
    px::Variable<px::Sparse> thin{session, "thin", {5, 0}};
    px::Variable<px::Sparse, px::AllReduce> thin_dense{session, "thin dense", {5, 0}};
    std::vector<int> const none, some{4, 0, 4};
    session.broadcast(empty, no_rows.gather);
    auto const [a, b, c, d, e] = session.pull(no_rows.shard.at(none), no_rows.naive.at(none), no_rows.gather.at(none),
                                              no_rows.dense.at(none), thin.at(some));
    session.start(grad(empty, nothing));
    session.step(grad(a, nothing), grad(b, nothing), grad(c, nothing), grad(d, nothing), grad(e, nothing),
                 grad(thin_dense, some, nothing), grad(empty_shard, nothing));
    session.step(px::clip_by_global_norm(1.0, grad(empty, nothing), grad(no_rows.shard, none, nothing)));
    session.finish();
    return std::tuple{empty.steps(), no_rows.shard.steps(), thin.steps(), e.size(), e.indices()};
  });
  for (auto const& each : steps) CHECK(each == std::tuple{2, 2, 1, 2u, 3u});
}

TEST_CASE("an index into a table of no rows is refused", "[session][limits]") {
  auto const answers = on_ranks(2, [](px::ThreadCommunicator& world) {
    Session session{world};
    px::Variable<px::Sparse> none{session, "none", {0, 3}};
    std::vector<int> const ids(world.rank() == 1 ? 1 : 0);
    return answer_of([&] { auto const rows = session.pull(none, ids); });
  });
  for (Answer const& answer : answers) {
    CHECK(answer.code == px::Errc::bad_id);
    CHECK(answer.detail == "index 0 at position 0 is outside [0, 0)");
  }
}

TEST_CASE("empty batches on all ranks, and on any subset, change nothing but the step count", "[session][limits]") {
  int const ranks = 3;
  int const with_ids = GENERATE(range(0, 8));  // a bit for each rank
  auto const results = on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    Session session{world};
    Tables tables{session, 5, 1};
    std::vector<int> ids;
    std::vector<float> rows;
    if (with_ids >> world.rank() & 1) ids = {3}, rows = {1};
    auto const [a, b, c, d] =
        session.pull(tables.shard.at(ids), tables.naive.at(ids), tables.gather.at(ids), tables.dense.at(ids));
    session.start(grad(b, rows));
    session.step(grad(a, rows), grad(c, rows), grad(d, rows));
    std::vector<std::vector<float>> result{all_rows(session, tables.shard), all_rows(session, tables.naive),
                                           all_rows(session, tables.gather), all_rows(session, tables.dense)};
    result.push_back({static_cast<float>(tables.shard.steps())});
    return result;
  });
  float const sum = static_cast<float>((with_ids & 1) + (with_ids >> 1 & 1) + (with_ids >> 2 & 1));
  for (auto const& of_rank : results) {
    for (std::size_t table = 0; table < 4; ++table) CHECK(of_rank[table] == std::vector<float>{0, 0, 0, -sum, 0});
    CHECK(of_rank[4][0] == 1);
  }
}

TEST_CASE("eight tables share one pull and one step, their counts in an extra round", "[session][limits]") {
  int const ranks = GENERATE(2, 4);
  auto const results = on_ranks(ranks, [](px::ThreadCommunicator& world) {
    Session session{world};
    std::deque<px::Variable<px::Sparse>> t;
    for (int i = 0; i < 8; ++i)
      t.emplace_back(session, "table " + std::to_string(i), px::Table{9, 2, px::constant(i)}, plain, px::Reduce::sum);
    std::vector<std::vector<int>> ids(8);
    for (int i = 0; i < 8; ++i)
      for (int k = 0; k <= world.rank(); ++k) ids[static_cast<std::size_t>(i)].push_back((i + k) % 9);
    auto const transfers = session.traffic().transfers;
    auto const handles = session.pull(t[0].at(ids[0]), t[1].at(ids[1]), t[2].at(ids[2]), t[3].at(ids[3]), t[4].at(ids[4]),
                                      t[5].at(ids[5]), t[6].at(ids[6]), t[7].at(ids[7]));
    auto const shared = session.traffic().transfers - transfers;
    bool right = true;
    std::vector<float> ones(2 * static_cast<std::size_t>(world.rank() + 1), 1.0f);
    std::apply([&](auto const&... handle) {
      float expected = 0;
      ((right = right && handle[0][1] == expected, expected += 1), ...);
      session.step(grad(handle, ones)...);
    }, handles);
    session.step(grad(t[0], ids[0], ones), grad(t[1], ids[1], ones), grad(t[2], ids[2], ones), grad(t[3], ids[3], ones),
                 grad(t[4], ids[4], ones), grad(t[5], ids[5], ones), grad(t[6], ids[6], ones), grad(t[7], ids[7], ones));
    for (int i = 0; i < 8; ++i) {
      auto const rows = all_rows(session, t[static_cast<std::size_t>(i)]);
      for (int k = 0; k < world.size(); ++k)
        right = right && rows[static_cast<std::size_t>((i + k) % 9 * 2)] == static_cast<float>(i - 2 * (world.size() - k));
    }
    return std::pair{right, shared};
  });
  for (auto const& [right, shared] : results) {
    CHECK(right);
    CHECK(shared == 2);  // the agreement and extra counts, which tell where ids and rows are read
  }
}

TEST_CASE("40 started flights of all kinds complete in one step", "[session][limits]") {
  int const ranks = GENERATE(1, 2, 3);
  bool const poll = GENERATE(false, true);
  auto const results = on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    Session session{world};
    Tables tables{session, 7, 2};
    std::vector<float> replicated(5), sharded(6), gradient(6, 1.0f);
    px::Variable<px::Dense> a{session, "a", px::bind(replicated), plain, px::Reduce::sum};
    px::Variable<px::Dense, px::PsShard> b{session, "b", px::bind(sharded), plain, px::Reduce::sum};
    std::vector<int> const ids{6, 2};
    std::vector<float> const rows(4, 1.0f);
    for (int i = 0; i < 10; ++i) {
      session.start(grad(a, std::span{gradient}.first(5)));
      session.start(grad(tables.shard, ids, rows), grad(b, gradient));
      if (poll) session.poll();
      session.start(grad(tables.gather, ids, rows), grad(tables.naive, ids, rows));
      session.start(grad(tables.dense, ids, rows), grad(a, std::span{gradient}.first(5)));
    }
    session.step();
    std::vector<float> result{replicated[4], sharded[5], static_cast<float>(a.steps() + b.steps())};
    for (float const value : {all_rows(session, tables.shard)[4], all_rows(session, tables.gather)[12],
                               all_rows(session, tables.naive)[5], all_rows(session, tables.dense)[13]})
      result.push_back(value);
    session.finish();
    return result;
  });
  float const n = 10.0f * static_cast<float>(ranks);
  for (auto const& result : results) CHECK(result == std::vector<float>{-2 * n, -n, 2, -n, -n, -n, -n});
}

TEST_CASE("handles of one variable live side by side, each with its own rows", "[session][limits]") {
  auto const results = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse> table{session, "table", {6, 1, px::uniform(0, 1)}, plain, px::Reduce::sum};
    auto const first = session.pull(table, std::vector{1, 4});
    float const row_1 = first[0][0], row_4 = first[1][0];
    auto const second = session.pull(table, std::vector{0, 2, 5});
    bool const kept = first.size() == 2 && first[0][0] == row_1 && first[1][0] == row_4 && second.size() == 3;
    session.step(grad(first, std::vector<float>{1, 2}), grad(second, std::vector<float>{3, 4, 5}));
    auto const after = session.pull(table, std::vector{1, 4});
    return static_cast<int>(kept && after[0][0] == row_1 - 2 && after[1][0] == row_4 - 4);
  });
  CHECK(results == std::vector{1, 1});
}

TEST_CASE("a handle serves several updates of a step, and is refused by later ones", "[session][limits]") {
  auto const results = on_ranks(3, [](px::ThreadCommunicator& world) {
    Session session{world};
    Tables tables{session, 4, 1};
    std::vector<int> const ids{3, 1, 3};
    std::vector<float> const one{1, 1, 1}, two{2, 2, 2};
    auto const [a, b, c, d] =
        session.pull(tables.shard.at(ids), tables.naive.at(ids), tables.gather.at(ids), tables.dense.at(ids));
    std::vector<float> const each{a.id(0) == 1 ? 10.0f : 20.0f, a.id(0) == 1 ? 20.0f : 10.0f};
    session.start(grad(a, one), grad(b, one), grad(c, one), grad(d, one));
    session.step(grad(a, one), grad(a, two), grad(b, two), grad(b, one), grad(c, two), grad(c, one), grad(d, two),
                 grad(d, one));
    // On one rank alone: the others pull again, as they must.
    std::vector<Answer> answers;
    auto const again = [&](auto& table, auto const& handle) {
      auto const anew = session.pull(table, ids);
      answers.push_back(answer_of([&] { session.step(grad(world.rank() == 1 ? handle : anew, one)); }));
      answers.push_back(answer_of([&] {
        session.start(grad(world.rank() == 1 ? handle : anew, two));
        session.step();
      }));
    };
    again(tables.shard, a), again(tables.naive, b), again(tables.gather, c), again(tables.dense, d);
    auto const [e, f] = session.pull(tables.shard.at(ids), tables.gather.at(ids));
    session.step(grad(e, one), grad(f, px::distinct(each)));
    return std::pair{answers,
                     std::vector<std::vector<float>>{all_rows(session, tables.shard), all_rows(session, tables.naive),
                                                     all_rows(session, tables.gather), all_rows(session, tables.dense)}};
  });
  for (auto const& [answers, rows] : results) {
    CHECK(rows[0] == std::vector<float>{0, -12 - 3, 0, -24 - 6});
    CHECK(rows[1] == std::vector<float>{0, -12, 0, -24});
    CHECK(rows[2] == std::vector<float>{0, -12 - 30, 0, -24 - 60});
    CHECK(rows[3] == rows[1]);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      INFO(answers[i].what);
      CHECK(answers[i] == results[0].first[i]);
      CHECK(answers[i].code == px::Errc::misuse);
      CHECK(answers[i].rank == 1);
      CHECK_THAT(answers[i].detail, contains("the handle was stepped before"));
    }
  }
}

TEST_CASE("a step that is refused leaves its handle to the next", "[session][limits]") {
  auto const results = on_ranks(2, [](px::ThreadCommunicator& world) {
    Session session{world};
    Tables tables{session, 4, 1};
    std::vector<int> const ids{3, 1, 3};
    std::vector<float> const right{1, 1, 1}, wrong{1, 1};
    auto const rows = session.pull(tables.shard, ids);
    Answer const answer = answer_of([&] { session.step(grad(rows, world.rank() == 0 ? wrong : right)); });
    session.step(grad(rows, right));
    return std::pair{answer.code, all_rows(session, tables.shard)};
  });
  for (auto const& [code, rows] : results) {
    CHECK(code == px::Errc::invalid_argument);
    CHECK(rows == std::vector<float>{0, -2, 0, -4});
  }
}

TEST_CASE("an empty handle is refused where it is used", "[session][limits]") {
  px::SelfCommunicator self;
  px::Session session{self};
  px::Variable<px::Sparse> words{session, "words", {4, 1}};
  std::vector<int> const ids{1};
  std::vector<float> const row{1};
  auto rows = session.pull(words, ids);
  auto const moved = std::move(rows);
  CHECK(answer_of([&] { session.step(grad(rows, row)); }).code == px::Errc::misuse);
  CHECK_FALSE(answer_of([&] { session.step(grad(moved, row)); }).refused);
}

TEST_CASE("variables move while updates and handles refer to them, sessions too", "[session][limits]") {
  auto const results = on_ranks(3, [](px::ThreadCommunicator& world) {
    Session first{world};
    std::vector<std::array<float, 3>> memory(10);
    std::vector<px::Variable<px::Dense>> layers;
    std::vector<float> const ones(3, 1.0f);
    for (std::size_t i = 0; i < 10; ++i) {
      layers.emplace_back(first, "layer " + std::to_string(i), px::bind(memory[i]), plain, px::Reduce::sum);
      if (i == 2) first.start(grad(layers[1], ones));
    }
    px::Variable<px::Sparse> words{first, "words", {6, 1}, plain, px::Reduce::sum};
    std::vector<int> const ids{5};
    auto rows = first.pull(words, ids);
    Session session = std::move(first);
    px::Variable<px::Sparse> moved = std::move(words);
    auto handle = std::move(rows);
    std::vector<decltype(grad(layers[0], ones))> updates;
    for (auto const& layer : layers) updates.push_back(grad(layer, ones));
    session.step(updates, grad(handle, std::vector<float>{4}));
    std::swap(layers[0], layers[9]);
    session.step(grad(layers[0], ones));
    px::Variable<px::Dense> more{session, "more", px::bind(memory[0])};
    session.broadcast(more);
    auto const table = all_rows(session, moved);
    session.finish();
    return std::vector{memory[0][0], memory[1][0], memory[9][0], table[5]};
  });
  for (auto const& result : results) CHECK(result == std::vector<float>{-3, -6, -6, -12});
}

TEST_CASE("a range of updates may grow, shrink and be empty from step to step", "[session][limits]") {
  auto const results = on_ranks(2, [](px::ThreadCommunicator& world) {
    Session session{world};
    std::vector<std::vector<float>> memory(6, std::vector<float>(100));
    std::deque<px::Variable<px::Dense>> layers;
    for (std::size_t i = 0; i < 6; ++i)
      layers.emplace_back(session, "layer " + std::to_string(i), px::bind(memory[i]), plain, px::Reduce::sum);
    std::vector<float> const ones(100, 1.0f);
    using Update = decltype(grad(layers[0], ones));
    for (std::size_t count : {3, 0, 6, 1}) {
      std::vector<Update> updates;
      for (std::size_t i = 0; i < count; ++i) updates.push_back(grad(layers[i], ones));
      session.step(updates);
    }
    std::vector<float> result;
    for (auto const& each : memory) result.push_back(each[99]);
    return result;
  });
  for (auto const& result : results) CHECK(result == std::vector<float>{-6, -4, -4, -2, -2, -2});
}

TEST_CASE("memory that a step may overwrite is no other gradient's", "[session][limits]") {
  struct Result {
    std::vector<Answer> answers;
    std::vector<float> values;
  };
  std::vector<Result> results(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    Session session{world};
    std::vector<std::vector<float>> memory(3, std::vector<float>(100));
    memory.emplace_back(200);
    std::deque<px::Variable<px::Dense>> layers;
    for (std::size_t i = 0; i < memory.size(); ++i)
      layers.emplace_back(session, "layer " + std::to_string(i), px::bind(memory[i]), plain, px::Reduce::sum);
    std::vector<float> gradients(400);
    Result& result = results[static_cast<std::size_t>(world.rank())];
    using Update = decltype(grad(layers[0], gradients));
    struct Given {
      std::size_t begin;
      bool in_place;
      std::size_t layer = 9;  // the one of that number
    };
    auto const step = [&](std::vector<Given> const& given) {
      std::fill(gradients.begin(), gradients.end(), 1.0f);
      std::vector<Update> updates;
      for (std::size_t i = 0; i < given.size(); ++i) {
        std::size_t const number = given[i].layer == 9 ? i : given[i].layer;
        std::span<float> const gradient{gradients.data() + given[i].begin, memory[number].size()};
        auto const& layer = layers[number];
        updates.push_back(given[i].in_place ? grad(layer, px::in_place(gradient)) : grad(layer, gradient));
      }
      result.answers.push_back(answer_of([&] { session.step(updates); }));
    };
    step({{0, true}, {100, true}});
    step({{0, false}, {0, false}, {50, false}});           // all may read the same
    step({{0, true}, {99, false}});                        // refused
    step({{0, true}, {99, false}});                        // and again
    step({{100, true}});
    step({{100, true}, {99, false}});                      // refused: as in the step before, but for the second
    step({{100, true}, {0, false}, {0, false}});
    step({{100, true}, {0, true}, {0, false}});            // refused
    step({{0, false}, {250, false}, {300, true}});         // refused
    step({{0, true}, {100, true}});
    step({{0, true, 3}, {100, true}});                     // refused: as before, but for the size of the first
    for (auto const& each : memory) result.values.push_back(each[99]);
    session.finish();
  }, patient);
  for (Result const& result : results) {
    std::vector<std::string> refused;
    for (Answer const& answer : result.answers) refused.push_back(answer.refused ? answer.variable + ": " + answer.detail : "");
    auto const said = [](char const* variable, char const* other) {
      return std::string{variable} + ": its gradient was given in_place, and the gradient of " + other + " shares memory with it";
    };
    CHECK(refused == std::vector<std::string>{"", "", said("layer 0", "layer 1"), said("layer 0", "layer 1"), "",
                                              said("layer 0", "layer 1"), "", said("layer 1", "layer 2"),
                                              said("layer 2", "layer 1"), "", said("layer 3", "layer 1")});
    CHECK(result.answers[2].code == px::Errc::invalid_argument);
    CHECK(result.values == std::vector<float>{-10, -8, -4, 0});
  }
}

TEST_CASE("shared memory is found as by looking at all pairs", "[session][limits]") {
  std::uint64_t const seed = 20261122;
  std::mt19937_64 random{seed};
  std::vector<std::byte> memory(40);
  int found = 0;
  for (int round = 0; round < 3000; ++round) {
    px::List<px::GradientMemory> all(1 + random() % 6);
    for (auto& each : all) {
      each.begin = memory.data() + random() % 32;
      each.end = each.begin + random() % 8;
      each.in_place = random() % 3 == 0;
    }
    auto const share = [](auto const& a, auto const& b) {
      return (a.in_place || b.in_place) && std::max(a.begin, b.begin) < std::min(a.end, b.end);
    };
    bool expected = false;
    for (std::size_t a = 0; a < all.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) expected = expected || share(all[a], all[b]);
    auto const shared = px::detail::shared_memory(all);
    INFO("seed " << seed << ", round " << round);
    REQUIRE(static_cast<bool>(shared) == expected);
    if (shared) REQUIRE((shared.overwritten->in_place && share(*shared.overwritten, *shared.other)));
    found += expected;
  }
  CHECK(found > 500);
  CHECK(found < 2500);
}

TEST_CASE("rows with a stride and a table in user memory are read and written in place", "[session][limits]") {
  auto const results = on_ranks(2, [](px::ThreadCommunicator& world) {
    Session session{world};
    std::vector<float> table(8, 1.0f), shard(100, 2.0f);
    px::Variable<px::Sparse, px::AllGather> whole{session, "whole", px::bind_rows(table, 2), plain, px::Reduce::sum};
    std::int64_t asked = -1;
    px::Variable<px::Sparse> part{session, "part", px::bind_shard(5, 2, [&](std::int64_t rows) {
                                                                    asked = rows;
                                                                    return shard.data();
                                                                  }), plain, px::Reduce::sum};
    std::vector<float> const strided{1, 2, -7, 3, 4, -7};
    px::RowsView<float const> const rows{strided.data(), 2, 2, 3};
    std::vector<int> const ids{3, 0};
    session.step(grad(whole, ids, rows), grad(part, ids, rows));
    auto const pulled = session.pull(part, ids);
    std::vector<float> result(table);
    result.insert(result.end(), {pulled[0][0], pulled[0][1], pulled[1][0], pulled[1][1]});
    result.push_back(static_cast<float>(asked));
    return result;
  });
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    CHECK(results[rank] == std::vector<float>{-5, -7, 1, 1, 1, 1, -1, -3, 0, -2, -4, -6, rank == 0 ? 3.0f : 2.0f});
}

}  // namespace parallax_test::limits
