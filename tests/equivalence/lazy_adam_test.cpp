// LazyAdam under every policy, against the oracle.
#include "equality.hpp"

namespace px = parallax;

using Models = parallax_test::Models<px::LazyAdam>;

TEMPLATE_LIST_TEST_CASE("LazyAdam on many ranks moves parameters as one process does", "[equivalence]", Models) {
  for (auto const& training : parallax_test::cases()) parallax_test::check_equality<TestType>(training);
}
