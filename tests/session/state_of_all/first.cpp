// The state of sessions of models 0 to 3 goes to other sessions.
#include "../whole_state.hpp"

#include "../../catch.hpp"

using namespace parallax_test::whole_state;

TEST_CASE("training goes on with another session's state: models 0 to 3", "[session][visit]") {
  px::AnyCommunicator self{px::SelfCommunicator{}};
  CHECK(complaint_of<0>(self, false) + complaint_on_threads<0>(4) + complaint_on_threads<0>(3, true) == "");
  CHECK(complaint_of<1>(self, false) + complaint_on_threads<1>(4) + complaint_on_threads<1>(3, true) == "");
  CHECK(complaint_of<2>(self, false) + complaint_on_threads<2>(4) + complaint_on_threads<2>(3, true) == "");
  CHECK(complaint_of<3>(self, false) + complaint_on_threads<3>(4) + complaint_on_threads<3>(3, true) == "");
}
