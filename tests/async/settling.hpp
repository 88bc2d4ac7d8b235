// A table whose rows take long to take their steps, and what other ranks see of it meanwhile: between threads, over sockets, and
// between processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "parallax/async/async_session.hpp"
#include "parallax/parallax.hpp"

namespace settling {

namespace px = parallax;
using namespace std::chrono_literals;

inline constexpr std::int64_t rows = 80, width = 1024;
inline constexpr int steps = 400;
inline constexpr auto deadline = 1s;  // a rank's rows take more than two to take their steps

// Momentum that takes long where no gradient is. It sleeps seldom, for on a busy machine it sleeps for longer than it asks: long
// work is told of after so many elements.
struct Slow {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar>;
  static constexpr px::Untouched untouched = px::Untouched::moves;
  double learning_rate = 0.01;

  struct Rule {
    double rate;
    void operator()(auto& p, auto g, auto& v) const noexcept {
      static thread_local int moved = 0;
      if (g == 0 && ++moved % 8192 == 0) std::this_thread::sleep_for(1ms);
      v += g;
      p -= static_cast<decltype(g)>(rate) * v;
    }
  };
  Rule at(std::int64_t) const { return {learning_rate}; }
};

// Returns all rows that rank 0 of so many owns.
inline std::vector<std::int64_t> of_rank_0(int ranks) {
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < rows; row += ranks) ids.push_back(row);
  return ids;
}

// Returns whether rank 1 sees a row as of the last step. It waits for rank 0, which shows itself all of its rows, or is asked
// for them.
template <class C>
bool waits(C& world, bool asked) {
  px::Session session{world};
  px::Variable<px::Sparse, Slow> table{session, "table", {rows, width}, px::Reduce::sum};
  auto const ids = world.rank() == 1 ? of_rank_0(world.size()) : std::vector<std::int64_t>{};
  session.step(px::grad(table, ids, std::vector<float>(ids.size() * width, 1.0f)));
  for (int step = 1; step < steps; ++step) session.step(px::grad(table, std::vector<std::int64_t>{}, std::vector<float>{}));
  if (!asked && world.rank() == 0) static_cast<void>(table.local());
  auto const pulled = session.pull(table, ids);
  bool const right = world.rank() != 1 || pulled[3][0] < -3.9f;
  session.finish();
  return right;
}

// Returns the first element of a row as of the last step, as a worker of rank 1 sees it. It waits for the server, rank 0, which
// owns all rows. Returns 0 on the other ranks.
template <class C>
float served(C& world) {
  float seen = 0;
  px::AsyncSession session{world, px::Ssp{1}, px::Servers{1}};  // so that no worker is done long before another
  px::Variable<px::Sparse, px::PsShard, Slow> table{session, "table", {rows / 2, width}};
  session.train([&](auto& worker) {
    std::vector<std::int64_t> ids(rows / 2);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
    for (int step = 0; step < steps; ++step) {
      bool const names = world.rank() == 1 && (step == 0 || step == steps - 1);
      auto const pulled = worker.pull(table.at(names ? ids : std::vector<std::int64_t>{}));
      if (names) seen = pulled[3][0];
      worker.push(px::grad(pulled, std::vector<float>(step == 0 && names ? ids.size() * width : pulled.size() * width, 0.5f)));
    }
  });
  session.finish();
  return seen;
}

}  // namespace settling
