// The state of sessions with variables on a device goes to other sessions: models 16 to 19.
#include "state_of_all.hpp"

TEST_CASE("training on a device goes on with another session's state: models 16 to 19", "[cuda][state]") {
  CHECK(emulated::complaints<16, 17, 18, 19>() == std::vector<std::string>(2));
}
