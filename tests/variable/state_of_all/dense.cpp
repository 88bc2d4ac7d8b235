// The state of every optimizer of the library goes to another variable: dense ones.
#include "../state.hpp"

#include "../../catch.hpp"

namespace px = parallax;
using namespace parallax_test::state;

TEST_CASE("the state of every optimizer goes to another variable: dense ones", "[variable][state]") {
  CHECK(complaints<DenseTraining, px::AllReduce>(All{}) == "");
  CHECK(complaints<DenseTraining, px::PsShard>(All{}) == "");
}
