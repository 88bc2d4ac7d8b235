// The state of sessions of models 4 to 7 goes to other sessions.
#include "../whole_state.hpp"

#include "../../catch.hpp"

using namespace parallax_test::whole_state;

TEST_CASE("training goes on with another session's state: models 4 to 7", "[session][visit]") {
  px::AnyCommunicator self{px::SelfCommunicator{}};
  CHECK(complaint_of<4>(self, false) + complaint_on_threads<4>(4) + complaint_on_threads<4>(3, true) == "");
  CHECK(complaint_of<5>(self, false) + complaint_on_threads<5>(4) + complaint_on_threads<5>(3, true) == "");
  CHECK(complaint_of<6>(self, false) + complaint_on_threads<6>(4) + complaint_on_threads<6>(3, true) == "");
  CHECK(complaint_of<7>(self, false) + complaint_on_threads<7>(4) + complaint_on_threads<7>(3, true) == "");
}
