#include "every_pair.hpp"

namespace px = parallax;

TEST_CASE("every policy has the host's bits on a device, with: Subtract, Adadelta, ProximalSgd, AdagradDa",
          "[cuda][equivalence]") {
  every_pair::check_all<px::Subtract, px::Adadelta, px::ProximalSgd, px::AdagradDa>();
}
