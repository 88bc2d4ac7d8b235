// A user's own optimizer under every policy, against the oracle.
#include "equality.hpp"

using Models = parallax_test::Models<parallax_test::Tempered>;

TEMPLATE_LIST_TEST_CASE("a user's own optimizer on many ranks moves parameters as one process does", "[equivalence]", Models) {
  for (auto const& training : parallax_test::cases()) parallax_test::check_equality<TestType>(training);
}
