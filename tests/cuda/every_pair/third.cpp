#include "every_pair.hpp"

namespace px = parallax;

TEST_CASE("every policy has the host's bits on a device, with: RowwiseAdagrad, Nesterov, AdamW, CenteredRmsProp",
          "[cuda][equivalence]") {
  every_pair::check_all<px::RowwiseAdagrad, px::Nesterov, px::AdamW, px::CenteredRmsProp>();
}
