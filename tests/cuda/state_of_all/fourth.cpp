// The state of sessions with variables on a device goes to other sessions: models 12 to 15.
#include "state_of_all.hpp"

TEST_CASE("training on a device goes on with another session's state: models 12 to 15", "[cuda][state]") {
  CHECK(emulated::complaints<12, 13, 14, 15>() == std::vector<std::string>(2));
}
