// Ssp{0} has the bits of a Session whose variables have PsShard, whoever owns and however many train.
#include "equality.hpp"

using namespace async_test;

namespace {

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
TEST_CASE("by clock, the bits are the same for any number of workers and owners", "[async][equality]") {
  for (int workers = 1; workers <= 8; ++workers)
    for (int servers = 1; servers <= 8; ++servers)
      compare<Model<float, px::Adagrad, px::Adagrad, px::Cyclic>>(workers, servers,
                                                                  static_cast<std::uint64_t>(1000 + 10 * workers + servers));
}
