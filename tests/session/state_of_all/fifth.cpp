// The state of sessions of models 16 to 19 goes to other sessions.
#include "../whole_state.hpp"

#include "../../catch.hpp"

using namespace parallax_test::whole_state;

TEST_CASE("training goes on with another session's state: models 16 to 19", "[session][visit]") {
  px::AnyCommunicator self{px::SelfCommunicator{}};
  CHECK(complaint_of<16>(self, false) + complaint_on_threads<16>(4) + complaint_on_threads<16>(3, true) == "");
  CHECK(complaint_of<17>(self, false) + complaint_on_threads<17>(4) + complaint_on_threads<17>(3, true) == "");
  CHECK(complaint_of<18>(self, false) + complaint_on_threads<18>(4) + complaint_on_threads<18>(3, true) == "");
  CHECK(complaint_of<19>(self, false) + complaint_on_threads<19>(4) + complaint_on_threads<19>(3, true) == "");
}
