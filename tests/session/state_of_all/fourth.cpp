// The state of sessions of models 12 to 15 goes to other sessions.
#include "../whole_state.hpp"

#include "../../catch.hpp"

using namespace parallax_test::whole_state;

TEST_CASE("training goes on with another session's state: models 12 to 15", "[session][visit]") {
  px::AnyCommunicator self{px::SelfCommunicator{}};
  CHECK(complaint_of<12>(self, false) + complaint_on_threads<12>(4) + complaint_on_threads<12>(3, true) == "");
  CHECK(complaint_of<13>(self, false) + complaint_on_threads<13>(4) + complaint_on_threads<13>(3, true) == "");
  CHECK(complaint_of<14>(self, false) + complaint_on_threads<14>(4) + complaint_on_threads<14>(3, true) == "");
  CHECK(complaint_of<15>(self, false) + complaint_on_threads<15>(4) + complaint_on_threads<15>(3, true) == "");
}
