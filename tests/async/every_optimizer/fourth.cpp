// Of every fourth optimizer: by clock, the bits are a session's.
#include "../equality.hpp"

using namespace async_test;

TEST_CASE("by clock, every optimizer and partitioner has the bits of a session: fourth part", "[async][equality]") {
  every_way<px::Nesterov, px::Greedy, float>(3);
  every_way<px::Adam, px::Cyclic, float>(7);
  every_way<px::RmsProp, px::Block, double>(11);
  every_way<px::Adadelta, px::Hash, float>(15);
  every_way<px::ProximalAdagrad, px::Greedy, float>(19);
  every_way<px::WeightDecay<px::RowwiseAdagrad>, px::Cyclic, double, px::Sgd>(23);
  every_way<px::WeightDecay<px::Lamb>, px::Block, float, px::Sgd>(27);
}
