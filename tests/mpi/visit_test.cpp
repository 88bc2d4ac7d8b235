// The state of a whole session goes to another one of as many ranks of MPI.
#include "../catch.hpp"
#include "../session/whole_state.hpp"
#include "parallax/comm/mpi.hpp"

using namespace parallax_test::whole_state;

namespace parallax_test::whole_state {
extern template std::string complaint_of<3>(px::AnyCommunicator&, bool);
extern template std::string complaint_of<13>(px::AnyCommunicator&, bool);
}  // namespace parallax_test::whole_state

TEST_CASE("training that goes on with another session's state ends with the same bits on MPI", "[session][visit][mpi]") {
  px::AnyCommunicator world{px::MpiCommunicator{}};
  CHECK(complaint_of<3>(world, false) == "");
  CHECK(complaint_of<13>(world, true) == "");
}
