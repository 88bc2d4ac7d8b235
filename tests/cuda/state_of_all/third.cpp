// The state of sessions with variables on a device goes to other sessions: models 8 to 11.
#include "state_of_all.hpp"

TEST_CASE("training on a device goes on with another session's state: models 8 to 11", "[cuda][state]") {
  CHECK(emulated::complaints<8, 9, 10, 11>() == std::vector<std::string>(2));
}
