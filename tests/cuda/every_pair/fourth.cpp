#include "every_pair.hpp"

namespace px = parallax;

TEST_CASE("every policy has the host's bits on a device, with: Ftrl, LazyNesterov, LazyAdamW, LazyCenteredRmsProp",
          "[cuda][equivalence]") {
  every_pair::check_all<px::Ftrl, px::LazyNesterov, px::LazyAdamW, px::LazyCenteredRmsProp>();
}
