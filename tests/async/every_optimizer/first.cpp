// Of every fourth optimizer: by clock, the bits are a session's.
#include "../equality.hpp"

using namespace async_test;

TEST_CASE("by clock, every optimizer and partitioner has the bits of a session: first part", "[async][equality]") {
  every_way<px::Sgd, px::Cyclic, float>(0);
  every_way<px::LazyNesterov, px::Block, float>(4);
  every_way<px::LazyAdam, px::Hash, double>(8);
  every_way<px::LazyRmsProp, px::Greedy, float>(12);
  every_way<px::LazyAdadelta, px::Cyclic, float>(16);
  every_way<px::LazyProximalAdagrad, px::Block, double>(20);
  every_way<px::LazyWeightDecay<px::Sgd>, px::Hash, float>(24);
}
