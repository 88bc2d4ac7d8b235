// What SimGrid's MPI (3.32) lacks, put between it and the program by MPI's profiling interface.
#include <mpi.h>
#include <simgrid/s4u/Actor.hpp>
#include <simgrid/s4u/Engine.hpp>

#include <algorithm>

// It has no MPI_Comm_idup. This one waits for the other ranks, which costs no message.
extern "C" int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* copy, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return PMPI_Comm_dup(comm, copy);
}

// Simulated time passes only where a rank waits, and who polls does not wait. So a test in vain lasts a 64th of the time that
// this rank has tested in vain, and 20 ns at least: what a rank finds is at most that much older than the test. (SMPI's own
// option smpi/test makes every test last, also one that is not in vain.) A test of no request is done here, because SMPI's
// leaves the flag as it was where the status is ignored.
extern "C" int MPI_Test(MPI_Request* request, int* complete, MPI_Status* status) {
  static double since = -1;  // SMPI gives every rank its own
  if (*request == MPI_REQUEST_NULL) {
    *complete = 1;
    return MPI_SUCCESS;
  }
  int const code = PMPI_Test(request, complete, status);
  if (code != MPI_SUCCESS || *complete) {
    since = -1;
    return code;
  }
  double const now = simgrid::s4u::Engine::get_clock();
  if (since < 0) since = now;
  simgrid::s4u::this_actor::sleep_for(std::max(20e-9, (now - since) / 64));
  return code;
}
