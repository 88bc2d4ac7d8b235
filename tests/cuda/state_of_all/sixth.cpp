// The state of sessions with variables on a device goes to other sessions: models 20 to 23.
#include "state_of_all.hpp"

TEST_CASE("training on a device goes on with another session's state: models 20 to 23", "[cuda][state]") {
  CHECK(emulated::complaints<20, 21, 22, 23>() == std::vector<std::string>(2));
}
