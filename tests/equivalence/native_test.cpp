// One model for each policy, against the oracle: compiled for this very machine at full optimization (see CMakeLists.txt), where
// compilers contract multiplications and additions wherever they are allowed to.
#include "equality.hpp"

using namespace parallax_test;

TEMPLATE_LIST_TEST_CASE("no bit depends on the machine that the compiler optimizes for", "[equivalence][native]", MixedModels) {
  for (Case const& training : cases())
    if (training.ranks >= 3) check_equality<TestType>(training);
}
