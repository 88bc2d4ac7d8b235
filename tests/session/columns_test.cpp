// Tables cut by columns: they train as whole ones do, bit for bit, and a row that all ranks name burdens several owners.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"
#include "parallax/conformance/partitioner.hpp"
#include "parallax/detail/partition/turned.hpp"
#include "parallax/partition/greedy.hpp"
#include "parallax/step/columns.hpp"

namespace parallax_test {
namespace {

constexpr std::int64_t rows = 19, width = 10;

struct Result {
  std::vector<float> seen;  // every row that was pulled
  int refused = 0;
};

// Trains on drawn ids, given as a whole table or as columns: `table` has pull(session, ids), `copy` takes a row of what it pulled.
template <class Session, class Pull, class Copy>
void train(Session& session, Result& result, Pull const& pull, Copy const& copy) {
  std::mt19937_64 random{77 + static_cast<std::uint64_t>(session.rank())};
  for (int step = 0; step < 8; ++step) {
    std::vector<int> ids(random() % 12);
    for (int& id : ids) id = static_cast<int>(random() % rows);
    std::vector<float> gradient(ids.size() * width);
    for (float& g : gradient) g = static_cast<float>(random() % 100) / 64;
    auto const pulled = pull(ids);
    std::vector<float> row(width);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      copy(pulled, i, row);
      result.seen.insert(result.seen.end(), row.begin(), row.end());
    }
    session.step(px::clip_by_global_norm(1.0, px::grad(pulled, gradient)));
  }
}

template <class V, int parts>
Result train_columns(px::ThreadCommunicator& world) {
  px::Session session{world};
  px::Columns<V, parts> wide{session, "wide", {rows, width, px::constant(0.5)}, px::Reduce::sum};
  Result result;
  train(
      session, result, [&](auto const& ids) { return wide.pull(session, ids); },
      [](auto const& pulled, std::size_t i, std::vector<float>& row) {
        if (pulled.copy_row(i, row.data()) != row.data() + width) row.clear();
      });
  session.finish();
  return result;
}
template <class V>
Result train_whole(px::ThreadCommunicator& world) {
  px::Session session{world};
  V wide{session, "wide", {rows, width, px::constant(0.5)}, px::Reduce::sum};
  Result result;
  train(
      session, result, [&](auto const& ids) { return session.pull(wide, ids); },
      [](auto const& pulled, std::size_t i, std::vector<float>& row) { row.assign(pulled[i].begin(), pulled[i].end()); });
  session.finish();
  return result;
}

template <class V>
void compare() {
  for (int const ranks : {1, 3}) {
    auto const whole = on_ranks(ranks, [](auto& world) { return train_whole<V>(world).seen; });
    CHECK(on_ranks(ranks, [](auto& world) { return train_columns<V, 1>(world).seen; }) == whole);
    CHECK(on_ranks(ranks, [](auto& world) { return train_columns<V, 4>(world).seen; }) == whole);
  }
}

// The bytes of rows that each rank sends and receives in a step whose ids are all the same one.
template <class Make>
std::vector<std::uint64_t> burdens(Make const& make) {
  return on_ranks(4, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    auto wide = make(session);
    std::vector<int> const ids{7};
    std::vector<float> const gradient(12, 1.0f);
    auto const pulled = wide.pull(session, ids);
    session.step(px::grad(pulled, gradient));
    auto const& traffic = session.traffic();
    std::uint64_t const bytes = traffic.sent_of(px::Payload::rows).all + traffic.received_of(px::Payload::rows).all;
    session.finish();
    return bytes;
  });
}

}  // namespace

TEST_CASE("a table cut by columns trains as a whole one does", "[session][columns]") {
  compare<px::Variable<px::Sparse, px::Adagrad>>();
  compare<px::Variable<px::Sparse, px::Adam, px::Hash>>();
  compare<px::Variable<px::Sparse, px::AllGather, px::Momentum, px::Block>>();
}

TEST_CASE("a row that all ranks name burdens an owner for each part, and not one for all", "[session][columns]") {
  using V = px::Variable<px::Sparse, px::Adagrad>;
  auto const cut = burdens([&](auto& session) { return px::Columns<V, 4>{session, "wide", {rows, 12}}; });
  auto const whole = burdens([&](auto& session) { return px::Columns<V, 1>{session, "wide", {rows, 12}}; });
  CHECK(*std::max_element(whole.begin(), whole.end()) == 3 * 2 * 12 * sizeof(float));  // the owner: all rows of three others
  CHECK(*std::max_element(cut.begin(), cut.end()) == *std::min_element(cut.begin(), cut.end()));
}

TEST_CASE("each part has the settings that the whole table was given", "[session][columns]") {
  auto const bad = GENERATE(px::BadIds::drop_and_count, px::BadIds::hash);
  auto const wrong = on_ranks(3, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    using V = px::Variable<px::Sparse, px::Momentum, px::Block>;
    px::Momentum const rule{.learning_rate = 0.25, .momentum = 0.5};
    px::Block const dealt{.pieces = 5};
    px::Columns<V, 2> cut{session, "cut", {rows, 3, px::constant(1)}, bad, dealt, px::Reduce::sum, rule};
    V whole{session, "whole", {rows, 3, px::constant(1)}, bad, dealt, px::Reduce::sum, rule};
    // Of five ids two are in no table, and each rank has others.
    std::vector<std::int64_t> const ids{2, -7 - world.rank(), 18, rows + 1'000'000 * world.rank(), 2};
    int different = 0;
    for (int step = 0; step < 3; ++step) {
      auto const parts = cut.pull(session, ids);
      auto const one = session.pull(whole, ids);
      std::vector<float> gradient, row(3);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        parts.copy_row(i, row.data());
        different += !std::equal(row.begin(), row.end(), one[i].begin());
        for (int c = 0; c < 3; ++c) gradient.push_back(static_cast<float>(world.rank() + 3 * c + static_cast<int>(i)));
      }
      for (int p = 0; p < 2; ++p) {
        different += parts.part(p).dropped() != one.dropped() || parts.part(p).size() != one.size();
        different += cut.part(p).state().partitioner().pieces != 5;
      }
      different += one.dropped() != (bad == px::BadIds::hash ? 0u : 2u);
      session.step(px::grad(parts, gradient), px::grad(one, gradient));
    }
    session.finish();
    return different;
  });
  CHECK(wrong == std::vector<int>(3));
}

TEST_CASE("what does not fit the columns is refused on all ranks", "[session][columns]") {
  auto const answers = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<std::string> told;
    px::Columns<px::Variable<px::Sparse>, 2> wide{session, "wide", {rows, 5}};
    std::vector<int> const ids{1, 2};
    auto const pulled = wide.pull(session, ids);
    std::vector<float> const narrow(8), right(10), few(5);
    for (auto const* gradient : {&narrow, &few})
      told.push_back(answer_of([&] { session.step(px::grad(pulled, *gradient)); }).what);
    std::vector<int> const bad{1, 19};
    told.push_back(answer_of([&] { (void)wide.pull(session, bad); }).what);
    session.step(px::grad(pulled, right));
    told.push_back(answer_of([&] { px::Columns<px::Variable<px::Sparse>, 2>{session, "thin", {rows, 1}}; }).what);
    session.finish();
    return told;
  });
  for (auto const& told : answers) {
    CHECK(told[0] ==
          "parallax: invalid argument (rank 0) in step of 'wide.0': gradient rows of ? x 2 for 2 x 2 pulled or named");
    CHECK(told[1] ==
          "parallax: invalid argument (rank 0) in step of 'wide.0': gradient rows of 1 x 2 for 2 x 2 pulled or named");
    CHECK(told[2] == "parallax: bad id (rank 0) in pull of 'wide.0': index 19 at position 1 is outside [0, 19)");
  }
  CHECK(answers[1][3] == "parallax: invalid argument (rank 1) in Columns of 'thin': 1 columns cannot be cut into 2 parts");
}

TEMPLATE_TEST_CASE("a turned partitioner is a bijection with its inverse", "[partition]", px::Cyclic, px::Greedy) {
  struct Third : px::Turned<TestType> {
    Third() : px::Turned<TestType>{2, 3} {}
  };
  parallax_conformance::check_partitioner<Third>();
  CHECK(Third{}.layout(40, 6).locate(0).owner == (TestType{}.layout(40, 6).locate(0).owner + 4) % 6);
}

}  // namespace parallax_test
