// The state of sessions with variables on a device goes to other sessions: models 4 to 7.
#include "state_of_all.hpp"

TEST_CASE("training on a device goes on with another session's state: models 4 to 7", "[cuda][state]") {
  CHECK(emulated::complaints<4, 5, 6, 7>() == std::vector<std::string>(2));
}
