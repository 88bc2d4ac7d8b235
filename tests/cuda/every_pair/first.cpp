#include "every_pair.hpp"

namespace px = parallax;

TEST_CASE("every policy has the host's bits on a device, with: Sgd, Momentum, Adam, RmsProp", "[cuda][equivalence]") {
  every_pair::check_all<px::Sgd, px::Momentum, px::Adam, px::RmsProp>();
}
