// Exact sparse Adam: rows that steps passed by are brought up to date when they are read, to the bits of the dense optimizer.
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::int64_t rows = 13, width = 3;

double rate_at(int step, bool changing) { return changing ? 0.1 / (1 + step % 7) : 0.01; }

// The rows that rank `rank` touches in a step, and their gradients; multiples of 1/8, so that sums are exact.
template <class T>
struct Batch {
  Batch(int step, int rank) {
    std::mt19937_64 random{static_cast<std::uint64_t>(step * 100 + rank)};
    ids.resize(random() % 4);
    for (auto& id : ids) id = static_cast<std::int64_t>(random() % rows);
    gradient.resize(ids.size() * width);
    for (T& g : gradient) g = static_cast<T>(static_cast<double>(random() % 33) / 8 - 2);
    look.resize(random() % 3);
    for (auto& id : look) id = static_cast<std::int64_t>(random() % rows);
  }
  std::vector<std::int64_t> ids, look;
  std::vector<T> gradient;
};

// The same training with a dense variable on one rank.
template <class T>
std::vector<std::vector<T>> dense_history(int ranks, int steps, bool changing) {
  px::SelfCommunicator self;
  px::Session session{self};
  std::vector<T> memory(rows * width, T{1});
  px::Variable<px::Dense, px::Adam, T> table{session, "table", px::bind(memory)};
  std::vector<std::vector<T>> history{memory};
  for (int step = 0; step < steps; ++step) {
    std::vector<T> gradient(rows * width);
    for (int rank = 0; rank < ranks; ++rank) {
      Batch<T> const batch{step, rank};
      for (std::size_t i = 0; i < batch.ids.size(); ++i)
        for (std::size_t c = 0; c < width; ++c)
          gradient[static_cast<std::size_t>(batch.ids[i]) * width + c] += batch.gradient[i * width + c];
    }
    table.optimizer().learning_rate = rate_at(step, changing);
    session.step(px::grad(table, gradient));
    history.push_back(memory);
  }
  return history;
}

// Trains sparsely, and compares what is pulled on the way, and all rows at the end. Returns the number of differing elements.
template <class T, class Policy>
int differences(int ranks, int steps, bool changing) {
  auto const history = dense_history<T>(ranks, steps, changing);
  std::vector<int> wrong(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    int& mine = wrong[static_cast<std::size_t>(world.rank())];
    px::Session session{world};
    px::Variable<px::Sparse, px::Adam, Policy, T> table{session, "table", {rows, width, px::constant(1)}, px::Reduce::sum};
    auto const compare = [&](std::int64_t id, auto row, int step) {
      T const* const expected = history[static_cast<std::size_t>(step)].data() + id * width;
      for (std::size_t c = 0; c < width; ++c) mine += std::memcmp(&row[c], &expected[c], sizeof(T)) != 0;
    };
    for (int step = 0; step < steps; ++step) {
      Batch<T> const batch{step, world.rank()};
      auto const handle = session.pull(table, batch.ids);
      for (std::size_t i = 0; i < batch.ids.size(); ++i) compare(batch.ids[i], handle[i], step);
      auto const looked = session.pull(table, batch.look);
      for (std::size_t i = 0; i < batch.look.size(); ++i) compare(batch.look[i], looked[i], step);
      table.optimizer().learning_rate = rate_at(step, changing);
      if (step % 3 == 0) session.step(px::grad(handle, batch.gradient));
      else session.step(px::grad(table, batch.ids, batch.gradient));
    }
    auto const local = table.local();
    for (std::int64_t row = 0; row < local.rows; ++row) compare(table.global_row(row), local[row], steps);
    session.finish();
  }, {.deadline = std::chrono::seconds{30}});
  int sum = 0;
  for (int const each : wrong) sum += each;
  return sum;
}

}  // namespace

TEST_CASE("exact sparse Adam equals dense Adam bit for bit", "[variable][settle]") {
  int const ranks = GENERATE(1, 2, 3);
  bool const changing = GENERATE(false, true);
  CAPTURE(ranks, changing);
  CHECK(differences<float, px::PsShard>(ranks, 40, changing) == 0);
  CHECK(differences<float, px::NaivePs>(ranks, 40, changing) == 0);
  CHECK(differences<float, px::AllGather>(ranks, 40, changing) == 0);
  CHECK(differences<float, px::AllReduce>(ranks, 40, changing) == 0);
  CHECK(differences<double, px::PsShard>(ranks, 40, changing) == 0);
}

TEST_CASE("a learning rate that changes at every one of 700 steps is remembered in bounded room", "[variable][settle]") {
  CHECK(differences<float, px::PsShard>(2, 700, true) == 0);
}

TEST_CASE("lazy Adam leaves untouched rows alone", "[variable][settle]") {
  px::SelfCommunicator self;
  px::Session session{self};
  px::Variable<px::Sparse, px::LazyAdam> sparse{session, "sparse", {4, 1, px::constant(1)}};
  px::Variable<px::Sparse, px::LazyAdam, px::AllReduce> densified{session, "densified", {4, 1, px::constant(1)}};
  std::vector<int> const first{1, 2}, second{2};
  std::vector<float> const one{1}, two{1, 1};
  session.step(px::grad(sparse, first, two), px::grad(densified, first, two));
  float const after = sparse.local()[1][0];
  for (int i = 0; i < 5; ++i) session.step(px::grad(sparse, second, one), px::grad(densified, second, one));
  CHECK(sparse.local()[0][0] == 1);
  CHECK(sparse.local()[1][0] == after);
  CHECK(sparse.local()[2][0] < after);
  for (std::int64_t row = 0; row < 4; ++row) CHECK(sparse.local()[row][0] == densified.local()[row][0]);
}
