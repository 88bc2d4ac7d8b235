// The time of a step between two ranks, threads or ends of connections, in microseconds: the median of many, and their mean.
// benchmarks/older/run compiles it against two revisions of the headers.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "parallax/comm/socket.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using Clock = std::chrono::steady_clock;

namespace {

double us_since(Clock::time_point begin) { return std::chrono::duration<double, std::micro>(Clock::now() - begin).count(); }

// The steps of rank 0, in microseconds each.
std::vector<double> took;

template <class Communicator, class Step>
void time_steps(Communicator& world, int steps, Step step) {
  for (int i = -std::max(steps / 20, 1); i < steps; ++i) {
    auto const begin = Clock::now();
    step(i + steps);
    if (world.rank() == 0 && i >= 0) took.push_back(us_since(begin));
  }
}

// A table of `rows` rows of `width` values, of which a rank names `ids` in each step. Rank 0 computes for `computes` us before.
template <class Communicator>
void sparse(Communicator& world, int steps, int rows, int width, int ids, double computes) {
  px::Session session{world};
  px::Variable<px::Sparse, px::Sgd> words{session, "words", {.rows = rows, .width = width}};
  std::vector<int> named(static_cast<std::size_t>(ids));
  std::vector<float> const gradient(named.size() * static_cast<std::size_t>(width), 0.5f);
  time_steps(world, steps, [&](int step) {
    auto const begin = Clock::now();
    while (world.rank() == 0 && us_since(begin) < computes) {}
    for (int i = 0; i < ids; ++i)
      named[static_cast<std::size_t>(i)] = static_cast<int>((step * 31L + i * (7919L + world.rank())) % rows);
    auto const pulled = session.pull(words, named);
    session.step(px::grad(pulled, std::span{gradient}));
  });
  session.finish();
}

// A tensor of that many values, summed and applied.
template <class Communicator>
void dense(Communicator& world, int steps, std::size_t values) {
  px::Session session{world};
  std::vector<float> parameters(values, 1.0f);
  std::vector<float> const gradient(values, 0.5f);
  px::Variable<px::Dense, px::Sgd> variable{session, "values", px::bind(parameters), px::Sgd{}};
  time_steps(world, steps, [&](int) { session.step(px::grad(variable, gradient)); });
  session.finish();
}

template <class Communicator>
void train(Communicator& world, std::string_view what, int steps, double computes) {
  if (what == "few") sparse(world, steps, 10'000, 64, 64, computes);
  if (what == "w1") dense(world, steps, 25'557'032);
  if (what == "w2") sparse(world, steps, 800'000, 128, 2'560, computes);
}

}  // namespace

// step threads|sockets few|w1|w2 STEPS MICROSECONDS PATH: ranks on connections meet by the file PATH.
int main(int argc, char** argv) {
  if (argc != 6) return 2;
  std::string_view const over = argv[1], what = argv[2];
  int const steps = std::atoi(argv[3]);
  double const computes = std::atof(argv[4]);
  if (over == "threads") {
    px::run_threads(2, [&](px::ThreadCommunicator& world) { train(world, what, steps, computes); });
  } else {
    auto const rank = [&](int number) {
      px::SocketCommunicator world{
          {.rank = number, .size = 2, .address = "file:" + std::string{argv[5]}, .shared_memory = false}};
      train(world, what, steps, computes);
    };
    std::jthread const other{rank, 1};
    rank(0);
  }
  double sum = 0;
  for (double const us : took) sum += us;
  std::nth_element(took.begin(), took.begin() + steps / 2, took.end());
  std::printf("%.3f %.3f\n", took[static_cast<std::size_t>(steps / 2)], sum / steps);
}
