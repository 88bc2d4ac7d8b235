// A model against the oracle: compiled for this very machine and optimized (see CMakeLists.txt), where
// compilers contract multiplications and additions wherever they are allowed to.
#include "equality.hpp"

using namespace parallax_test;

using Adam = Model<px::AllReduce, px::PsShard, px::Adam>;

TEST_CASE("no bit depends on the machine that the compiler optimizes for", "[equivalence][native]") {
  for (Case const& training : cases())
    if (training.ranks >= 3) check_equality<Adam>(training, train_on_threads<Adam>(training));
}
