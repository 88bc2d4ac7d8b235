// The state of sessions of models 8 to 11 goes to other sessions.
#include "../whole_state.hpp"

#include "../../catch.hpp"

using namespace parallax_test::whole_state;

TEST_CASE("training goes on with another session's state: models 8 to 11", "[session][visit]") {
  px::AnyCommunicator self{px::SelfCommunicator{}};
  CHECK(complaint_of<8>(self, false) + complaint_on_threads<8>(4) + complaint_on_threads<8>(3, true) == "");
  CHECK(complaint_of<9>(self, false) + complaint_on_threads<9>(4) + complaint_on_threads<9>(3, true) == "");
  CHECK(complaint_of<10>(self, false) + complaint_on_threads<10>(4) + complaint_on_threads<10>(3, true) == "");
  CHECK(complaint_of<11>(self, false) + complaint_on_threads<11>(4) + complaint_on_threads<11>(3, true) == "");
}
