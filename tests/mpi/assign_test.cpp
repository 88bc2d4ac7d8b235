// Rows that are assigned and scaled over MPI: those by hand.
#include "../catch.hpp"
#include "../session/assign.hpp"
#include "parallax/comm/mpi.hpp"

namespace px = parallax;

TEST_CASE("rows that are assigned and scaled over MPI are those by hand", "[mpi][session][assign]") {
  px::MpiCommunicator world;
  for (std::uint64_t const seed : {1, 2}) CHECK(parallax_test::assigning::complaint(px::Topology{world}, seed) == "");
}
