// A process that takes long to bring rows up to date says so, and no deadline of the others passes because of it.
#include "../async/settling.hpp"
#include "../catch.hpp"
#include "parallax/comm/mpi.hpp"

namespace px = parallax;

TEST_CASE("a process that settles rows for longer than the deadline is waited for", "[mpi][settle]") {
  px::MpiCommunicator world{MPI_COMM_WORLD, {.deadline = settling::deadline}};
  for (bool const asked : {false, true}) CHECK(settling::waits(world, asked));
}

TEST_CASE("a server in a process that settles rows for longer than the deadline is waited for by workers", "[mpi][settle]") {
  px::MpiCommunicator world{MPI_COMM_WORLD, {.deadline = settling::deadline}};
  float const seen = settling::served(world);
  CHECK((seen < 0) == (world.rank() == 1));
}
