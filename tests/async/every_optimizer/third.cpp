// Of every fourth optimizer: by clock, the bits are a session's.
#include "../equality.hpp"

using namespace async_test;

TEST_CASE("by clock, every optimizer and partitioner has the bits of a session: third part", "[async][equality]") {
  every_way<px::LazyMomentum, px::Hash, float>(2);
  every_way<px::RowwiseAdagrad, px::Greedy, float, px::Sgd>(6);
  every_way<px::LazyAdamW, px::Cyclic, double>(10);
  every_way<px::Ftrl, px::Block, float>(14);
  every_way<px::LazyProximalSgd, px::Hash, float>(18);
  every_way<px::LazyAdagradDa, px::Greedy, double>(22);
  every_way<px::LazyLamb, px::Cyclic, float, px::Sgd>(26);
}
