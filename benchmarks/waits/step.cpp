// The time of a step between two thread ranks, if one of them computes for so long before it, in microseconds: the median of
// many, and their mean. benchmarks/waits/run compiles it against two revisions of the headers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using Clock = std::chrono::steady_clock;

namespace {

double us_since(Clock::time_point begin) { return std::chrono::duration<double, std::micro>(Clock::now() - begin).count(); }

struct Took {
  double median, mean;
};

// Rank 0 computes, and tells what its steps took.
Took train(px::ThreadCommunicator& world, double computes, int steps) {
  px::Session session{world};
  px::Variable<px::Sparse, px::Sgd> words{session, "words", {.rows = 10'000, .width = 64}};
  std::vector<int> ids(64);
  std::vector<float> const gradient(64 * 64, 0.5f);
  std::vector<double> took;
  for (int step = 0; step < steps; ++step) {
    auto const begin = Clock::now();
    while (world.rank() == 0 && us_since(begin) < computes) {}
    for (int i = 0; i < 64; ++i) ids[static_cast<std::size_t>(i)] = (step * 31 + i * (7 + world.rank())) % 10'000;
    auto const rows = session.pull(words, ids);
    session.step(px::grad(rows, std::span{gradient}));
    took.push_back(us_since(begin));
  }
  session.finish();
  double sum = 0;
  for (double const us : took) sum += us;
  std::nth_element(took.begin(), took.begin() + steps / 2, took.end());
  return {took[static_cast<std::size_t>(steps / 2)], sum / steps};
}

}  // namespace

// step MICROSECONDS STEPS
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    Took const us = train(world, std::atof(argv[1]), std::atoi(argv[2]));
    if (world.rank() == 0) std::printf("%.3f %.3f\n", us.median, us.mean);
  });
}
