#include "every_pair.hpp"

namespace px = parallax;

TEST_CASE(
    "every policy has the host's bits on a device, with: LazyLamb, ProximalAdagrad, LazyProximalAdagrad, WeightDecay<Sgd>",
    "[cuda][equivalence]") {
  every_pair::check_all<px::LazyLamb, px::ProximalAdagrad, px::LazyProximalAdagrad, px::WeightDecay<px::Sgd>>();
}
