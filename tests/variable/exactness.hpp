// A table trained sparsely beside the same rows as dense variables of one rank, which is what exact semantics mean.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test::exactness {

namespace px = parallax;

inline constexpr std::int64_t rows = 13, width = 3;

inline double rate_at(int step, bool changing) { return changing ? 0.1 / (1 + step % 7) : 0.01; }

template <class O>
double& rate_of(O& optimizer) {
  if constexpr (requires { optimizer.learning_rate; }) return optimizer.learning_rate;
  else return rate_of(optimizer.optimizer);
}

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

// The same training with a dense variable for every row, on one rank.
template <class O, class T>
std::vector<std::vector<T>> dense_history(int ranks, int steps, bool changing, O const& optimizer) {
  px::SelfCommunicator self;
  px::Session session{self};
  std::vector<T> memory(rows * width, T{1});
  std::vector<px::Variable<px::Dense, O, T>> table;
  for (std::int64_t row = 0; row < rows; ++row)
    table.emplace_back(session, "row " + std::to_string(row),
                       px::bind(std::span{memory}.subspan(static_cast<std::size_t>(row * width), width)), optimizer);
  std::vector<std::vector<T>> history{memory};
  for (int step = 0; step < steps; ++step) {
    std::vector<T> gradient(rows * width);
    for (int rank = 0; rank < ranks; ++rank) {
      Batch<T> const batch{step, rank};
      for (std::size_t i = 0; i < batch.ids.size(); ++i)
        for (std::size_t c = 0; c < width; ++c)
          gradient[static_cast<std::size_t>(batch.ids[i]) * width + c] += batch.gradient[i * width + c];
    }
    std::vector<decltype(px::grad(table[0], std::span<T const>{}))> updates;
    for (std::size_t row = 0; row < rows; ++row) {
      rate_of(table[row].optimizer()) = rate_at(step, changing);
      updates.push_back(px::grad(table[row], std::span<T const>{gradient}.subspan(row * width, width)));
    }
    session.step(updates);
    history.push_back(memory);
  }
  return history;
}

// Trains sparsely, and compares what is pulled on the way, and all rows at the end. Returns the number of differing elements.
template <class O, class T, class Policy>
int differences(int ranks, int steps, bool changing, O const& optimizer = {}) {
  auto const history = dense_history<O, T>(ranks, steps, changing, optimizer);
  std::vector<int> wrong(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    int& mine = wrong[static_cast<std::size_t>(world.rank())];
    px::Session session{world};
    px::Variable<px::Sparse, O, Policy, T> table{session, "table", {rows, width, px::constant(1)}, optimizer, px::Reduce::sum};
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
      rate_of(table.optimizer()) = rate_at(step, changing);
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

}  // namespace parallax_test::exactness
