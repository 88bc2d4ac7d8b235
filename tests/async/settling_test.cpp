// A rank that takes long to bring rows up to date says so. The deadline of ranks that wait for it does not pass, between
// threads, over sockets, and of a server that answers workers.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../comm/sockets.hpp"
#include "parallax/async/async_session.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t rows = 80, width = 64;
constexpr int steps = 400;
constexpr auto deadline = 1s;  // a rank's rows take more than two to take their steps

// Momentum, which takes about 2 µs an element where no gradient is.
struct Slow {
  using axis = px::optimizer_axis;
  using element_slots = px::slots<px::scalar>;
  static constexpr px::Untouched untouched = px::Untouched::moves;
  double learning_rate = 0.01;

  struct Rule {
    double rate;
    void operator()(auto& p, auto g, auto& v) const noexcept {
      static thread_local int moved = 0;
      if (g == 0 && ++moved % 64 == 0) std::this_thread::sleep_for(100us);
      v += g;
      p -= static_cast<decltype(g)>(rate) * v;
    }
  };
  Rule at(std::int64_t) const { return {learning_rate}; }
};

// Returns all rows that rank 0 owns: every second one.
std::vector<std::int64_t> of_rank_0() {
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < rows; row += 2) ids.push_back(row);
  return ids;
}

// Returns whether rank 1 sees a row as of the last step. It waits for rank 0, which shows itself all of its rows, or is asked
// for them.
template <class C>
bool waits(C& world, bool asked) {
  px::Session session{world};
  px::Variable<px::Sparse, Slow> table{session, "table", {rows, width}};
  auto const ids = world.rank() == 1 ? of_rank_0() : std::vector<std::int64_t>{};
  session.step(px::grad(table, ids, std::vector<float>(ids.size() * width, 1.0f)));
  for (int step = 1; step < steps; ++step) session.step(px::grad(table, std::vector<std::int64_t>{}, std::vector<float>{}));
  if (!asked && world.rank() == 0) static_cast<void>(table.local());
  auto const pulled = session.pull(table, ids);
  bool const right = world.rank() == 0 || pulled[3][0] < -1.9f;
  session.finish();
  return right;
}

}  // namespace

TEST_CASE("a rank that settles rows for longer than the deadline is waited for between threads", "[session][settle]") {
  for (bool const asked : {false, true}) {
    bool right[2] = {};
    px::run_threads(2, [&](px::ThreadCommunicator& world) { right[world.rank()] = waits(world, asked); },
                    {.deadline = deadline});
    CHECK((right[0] && right[1]));
  }
}

TEST_CASE("a rank that settles rows for longer than the deadline is waited for over sockets", "[session][settle][sockets]") {
  bool right[2] = {};
  run_sockets(2, [&](px::SocketCommunicator& world) { right[world.rank()] = waits(world, false); }, {.deadline = deadline});
  CHECK((right[0] && right[1]));
}

TEST_CASE("a server that settles rows for longer than the deadline is waited for by workers", "[async][settle]") {
  float seen = 0;
  px::run_threads(
      2,
      [&](px::ThreadCommunicator& world) {
        px::AsyncSession session{world, px::Asp{}, px::Servers{1}};
        px::Variable<px::Sparse, px::PsShard, Slow> table{session, "table", {rows / 2, width}};
        session.train([&](auto& worker) {
          std::vector<std::int64_t> ids(rows / 2);
          for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
          for (int step = 0; step < steps; ++step) {
            auto const pulled = worker.pull(table.at(step == 0 || step == steps - 1 ? ids : std::vector<std::int64_t>{}));
            if (step == steps - 1) seen = pulled[3][0];
            worker.push(px::grad(pulled, std::vector<float>(step == 0 ? ids.size() * width : pulled.size() * width, 0.5f)));
          }
        });
        session.finish();
      },
      {.deadline = deadline});
  CHECK(seen < 0);
}
