#include "every_pair.hpp"

namespace px = parallax;

TEST_CASE("every policy has the host's bits on a device, with: Adagrad, LazyMomentum, LazyAdam, LazyRmsProp",
          "[cuda][equivalence]") {
  every_pair::check_all<px::Adagrad, px::LazyMomentum, px::LazyAdam, px::LazyRmsProp>();
}
