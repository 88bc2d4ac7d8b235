// Memory that is named by a pointer and a count, and lists of updates of one type.
#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr px::ThreadOptions patient{.deadline = std::chrono::seconds{30}};

}  // namespace

TEST_CASE("elements by pointer and count are trained as those by hand, and their neighbours stay", "[session][pointer]") {
  constexpr std::size_t count = 37, ranks = 3;
  std::uint64_t const seed = 7;
  INFO("seed " << seed);
  auto const gradient_of = [](std::size_t rank, std::size_t i) {
    return static_cast<double>(std::mt19937_64{seed + 100 * rank + i}() % 65) / 8 - 4;
  };
  std::vector<double> expected(count + 2, 1.0);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t rank = 0; rank < ranks; ++rank) expected[1 + i] -= gradient_of(rank, i) / 2;
  std::vector<std::vector<double>> memory(ranks, std::vector<double>(count + 2, 1.0));
  auto const train = [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    double* const values = memory[rank].data() + 1;
    px::Session session{world};
    px::Variable<px::Dense, double> layer{session, "layer", px::bind(values, count), px::Sgd{.learning_rate = 0.5},
                                          px::Reduce::sum};
    std::vector<double> gradient(count);
    for (std::size_t i = 0; i < count; ++i) gradient[i] = gradient_of(rank, i);
    double const* const read_only = gradient.data();
    session.step(px::grad(layer, read_only, static_cast<std::int64_t>(count)));
    session.finish();
  };
  px::run_threads(static_cast<int>(ranks), train, patient);
  for (auto const& each : memory) CHECK(each == expected);
}

TEST_CASE("a row of memory by pointer is given as of any other tensor, and an array is a tensor itself", "[session][pointer]") {
  px::SelfCommunicator world;
  px::Session session{world};
  float memory[8] = {};
  px::Variable<px::Dense> whole{session, "whole", px::bind(memory, 4)};  // rows of 4, as ever
  px::Variable<px::Dense> first{session, "first", px::bind(&memory[0], 4)};
  CHECK(whole.values().size() == 8);
  CHECK(first.values().size() == 4);
  CHECK_THROWS_WITH((px::Variable<px::Dense>{session, "odd", px::bind(&memory[0], 8, 3)}),
                    "parallax: invalid argument (rank 0) in Variable of 'odd': rows of 3 do not divide 8 elements");
  session.finish();
}

TEST_CASE("a count that is not the variable's is the error of a tensor of that size, on all ranks", "[session][pointer]") {
  std::vector<std::vector<std::string>> texts(3);
  std::vector<float> after(3);
  auto const train = [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    px::Session session{world};
    std::vector<float> memory(8, 1.0f), gradient(8, 1.0f);
    px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(memory.data(), 8), px::Sgd{.learning_rate = 1}};
    std::size_t const size = rank == 1 ? 7 : 8;
    auto const refused = [&](auto const& step) {
      try {
        step();
      } catch (px::Error const& error) {
        texts[rank].push_back(error.what());
      }
    };
    refused([&] { session.step(px::grad(layer, gradient.data(), size)); });
    refused([&] { session.step(px::grad(layer, std::span{gradient.data(), size})); });
    session.step(px::grad(layer, gradient.data(), 8));
    after[rank] = memory[7];
    session.finish();
  };
  px::run_threads(3, train, patient);
  for (auto const& each : texts) {
    REQUIRE(each.size() == 2);
    CHECK(each[0] == each[1]);
    CHECK(each[0] == texts[0][0]);
    CHECK(each[0].find("invalid argument (rank 1) in step of 'layer': ") != std::string::npos);
  }
  CHECK(after == std::vector<float>(3, 0.0f));
}

TEST_CASE("a list of updates is one argument of a step and of a start", "[session][updates]") {
  std::vector<std::vector<float>> seen(2);
  auto const train = [&](px::ThreadCommunicator& world) {
    using Layer = px::Variable<px::Dense, px::Sgd>;
    using Words = px::Variable<px::Sparse, px::Sgd>;
    px::Sgd const plain{.learning_rate = 1};
    px::Session session{world};
    std::vector<std::vector<float>> memory(4, std::vector<float>(5)), gradients(4, std::vector<float>(5, 1.0f));
    std::deque<Layer> layers;
    std::deque<Words> tables;
    for (std::size_t i = 0; i < 4; ++i) {
      layers.emplace_back(session, "layer " + std::to_string(i), px::bind(memory[i]), plain, px::Reduce::sum);
      tables.emplace_back(session, "table " + std::to_string(i), px::Table{6, 1}, plain, px::Reduce::sum);
    }
    std::vector<std::int64_t> const ids{2, 2};
    std::vector<float> const row_gradients{1, 3};
    px::Updates<Layer> dense;
    px::Updates<Words> rows;
    std::deque<px::PulledRows<Words::State>> handles;
    auto const list_rows = [&] {
      rows.clear();
      for (std::size_t i = 0; i < 4; ++i)
        if (i % 2 == 0) rows.push_back(px::grad(tables[i], ids, row_gradients));
        else rows.push_back(px::grad(handles.emplace_back(session.pull(tables[i], ids)), row_gradients));
    };
    for (std::size_t i = 0; i < 4; ++i)
      dense.push_back(px::grad(layers[i], i % 2 == 0 ? px::in_place(gradients[i]).values : std::span{gradients[i]}));
    list_rows();
    session.start(dense);
    session.step(px::clip_by_global_norm(1e9, rows));
    list_rows();
    session.step(px::Updates<Layer>{}, rows);
    auto& result = seen[static_cast<std::size_t>(world.rank())];
    for (std::size_t i = 0; i < 4; ++i) {
      result.push_back(memory[i][4]);
      result.push_back(session.pull(tables[i], ids)[0][0]);
    }
    session.finish();
  };
  px::run_threads(2, train, patient);
  for (auto const& result : seen) CHECK(result == std::vector<float>{-2, -16, -2, -16, -2, -16, -2, -16});
}
