// Ssp{0} has the bits of a Session whose variables have PsShard, whoever owns and however many train.
#include <thread>
#include <type_traits>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "training.hpp"

using namespace async_test;

namespace {

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

template <class Optimizer, class Partitioner, class T>
void every_shape(std::uint64_t seed) {
  using TheModel = Model<T, Optimizer, Optimizer, Partitioner>;
  for (int const workers : {1, 2, 3, 8}) compare<TheModel>(workers, 0, seed + static_cast<std::uint64_t>(workers));
  for (int const servers : {1, 2, 3}) compare<TheModel>(4 - servers, servers, seed + 10 * static_cast<std::uint64_t>(servers));
  compare<TheModel>(2, 1, seed + 100, px::Reduce::sum);
  compare<TheModel>(3, 0, seed + 101, px::Reduce::mean);
}

}  // namespace

TEST_CASE("by clock, workers and owners apart have the bits of a session: element-wise optimizers", "[async][equality]") {
  every_shape<px::Sgd, px::Cyclic, float>(1);
  every_shape<px::Adagrad, px::Block, double>(2);
  every_shape<px::Adam, px::Hash, float>(3);
}
TEST_CASE("by clock, the bits are the same with counts of indices, and with rows that are measured", "[async][equality]") {
  compare<Model<float, px::Sgd, px::Adagrad, px::Cyclic>>(3, 0, 7, px::Reduce::mean_by_count);
  compare<Model<double, px::LazyAdam, px::RowwiseAdagrad, px::Cyclic>>(3, 2, 8);
  compare<Model<float, px::RmsProp, px::Ftrl, px::Block>>(2, 2, 9);
}
