// The state of sessions of models 20 to 23 goes to other sessions.
#include "../whole_state.hpp"

#include "../../catch.hpp"

using namespace parallax_test::whole_state;

static_assert(models == 24);  // here and beside

TEST_CASE("training goes on with another session's state: models 20 to 23", "[session][visit]") {
  px::AnyCommunicator self{px::SelfCommunicator{}};
  CHECK(complaint_of<20>(self, false) + complaint_on_threads<20>(4) + complaint_on_threads<20>(3, true) == "");
  CHECK(complaint_of<21>(self, false) + complaint_on_threads<21>(4) + complaint_on_threads<21>(3, true) == "");
  CHECK(complaint_of<22>(self, false) + complaint_on_threads<22>(4) + complaint_on_threads<22>(3, true) == "");
  CHECK(complaint_of<23>(self, false) + complaint_on_threads<23>(4) + complaint_on_threads<23>(3, true) == "");
}
