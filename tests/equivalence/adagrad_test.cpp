// Adagrad under every policy, against the oracle.
#include "equality.hpp"

namespace px = parallax;

using Models = parallax_test::Models<px::Adagrad>;

TEMPLATE_LIST_TEST_CASE("Adagrad on many ranks moves parameters as one process does", "[equivalence]", Models) {
  for (auto const& training : parallax_test::cases()) parallax_test::check_equality<TestType>(training);
}
