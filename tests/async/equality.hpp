// What a Session and an AsyncSession leave behind, beside each other.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/partition/greedy.hpp"
#include "training.hpp"

namespace async_test {

// The states of all ranks, as a Session and as an AsyncSession leave them.
template <class TheModel, class... Settings>
void compare(int workers, int servers, std::uint64_t seed, Settings const&... settings) {
  int const ranks = workers + servers, steps = 12;
  States together(static_cast<std::size_t>(ranks)), apart = together;
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    together[static_cast<std::size_t>(world.rank())] = train_together<TheModel>(world, servers, steps, seed, settings...);
  });
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    apart[static_cast<std::size_t>(world.rank())] = train_apart<TheModel>(
        world, px::Ssp{0}, servers, steps, seed,
        [&](auto& worker, int step) {
          if ((step + worker.rank()) % 5 == 0) std::this_thread::yield();
          if (step % 3 == 0) worker.poll();
        },
        {}, settings...);
  });
  for (std::size_t rank = 0; rank < apart.size(); ++rank) {
    CAPTURE(workers, servers, seed, rank);
    REQUIRE(together[rank].records().size() == apart[rank].records().size());
    for (std::size_t i = 0; i < apart[rank].records().size(); ++i) {
      auto const &one = together[rank].records()[i], &other = apart[rank].records()[i];
      CAPTURE(one.variable, one.name);
      if (one.name == "seen") continue;  // what each has counted of the table's use
      CHECK(one == other);
    }
  }
}

// By owners of their own and by all ranks, with means and with sums. One that measures has another one for the layer.
template <class Optimizer, class Partitioner, class T, class OfLayer = Optimizer>
void every_way(std::uint64_t seed) {
  using TheModel = Model<T, OfLayer, Optimizer, Partitioner>;
  compare<TheModel>(3, 2, 100 + seed);
  compare<TheModel>(3, 0, 200 + seed, px::Reduce::sum);
}

}  // namespace async_test
