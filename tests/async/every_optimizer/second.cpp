// Of every fourth optimizer: by clock, the bits are a session's.
#include "../equality.hpp"

using namespace async_test;

TEST_CASE("by clock, every optimizer and partitioner has the bits of a session: second part", "[async][equality]") {
  every_way<px::Momentum, px::Block, float>(1);
  every_way<px::Adagrad, px::Hash, float>(5);
  every_way<px::AdamW, px::Greedy, double>(9);
  every_way<px::CenteredRmsProp, px::Cyclic, float>(13);
  every_way<px::ProximalSgd, px::Block, float>(17);
  every_way<px::AdagradDa, px::Hash, double>(21);
  every_way<px::Lamb, px::Greedy, float, px::Sgd>(25);
}
