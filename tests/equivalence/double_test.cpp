// Variables of doubles, with other pairs of policy, partitioner and optimizer, against the oracle.
#include "equality.hpp"

namespace px = parallax;
using parallax_test::Model;

using Models = std::tuple<Model<px::PsShard, px::PsShard, px::Adam, px::Block, double, std::int32_t>,
                          Model<px::AllReduce, px::AllGather, px::LazyAdam, px::Hash, double>,
                          Model<px::PsShard, px::AllReduce, px::Adagrad, px::Block, double, std::int32_t>,
                          Model<px::AllReduce, px::NaivePs, px::Sgd, px::Cyclic, double>>;

TEMPLATE_LIST_TEST_CASE("variables of doubles on many ranks move as in one process", "[equivalence]", Models) {
  for (auto const& training : parallax_test::cases()) parallax_test::check_equality<TestType>(training);
}
