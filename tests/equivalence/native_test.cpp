// One model for each policy, against the oracle: compiled for this very machine at full optimization (see CMakeLists.txt), where
// compilers contract multiplications and additions wherever they are allowed to.
#include "equality.hpp"

using namespace parallax_test;

using NativeModels = decltype(std::tuple_cat(MixedModels{}, std::tuple<Model<px::PsShard, px::PsShard, px::Sgd>>{}));

TEMPLATE_LIST_TEST_CASE("no bit depends on the machine that the compiler optimizes for", "[equivalence][native]", NativeModels) {
  for (Case const& training : cases())
    if (training.ranks >= 3) check_equality<TestType>(training);
}
