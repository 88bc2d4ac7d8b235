#include "every_pair.hpp"

namespace px = parallax;

TEST_CASE("every policy has the host's bits on a device, with: Lamb, LazyAdadelta, LazyProximalSgd, LazyAdagradDa",
          "[cuda][equivalence]") {
  every_pair::check_all<px::Lamb, px::LazyAdadelta, px::LazyProximalSgd, px::LazyAdagradDa>();
}
