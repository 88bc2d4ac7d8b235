// The state of sessions with variables on a device goes to other sessions: models 0 to 3.
#include "state_of_all.hpp"

TEST_CASE("training on a device goes on with another session's state: models 0 to 3", "[cuda][state]") {
  CHECK(emulated::complaints<0, 1, 2, 3>() == std::vector<std::string>(2));
}
