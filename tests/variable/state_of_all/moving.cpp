// The state of every optimizer of the library goes to another variable: tables under Auto.
#include "../state.hpp"

#include "../../catch.hpp"

namespace px = parallax;
using namespace parallax_test::state;

TEST_CASE("the state of every optimizer goes to another variable: tables under Auto", "[variable][state]") {
  CHECK(complaints<SparseTraining, px::Auto>(All{}) == "");
}
