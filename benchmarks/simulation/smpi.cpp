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

// Simulated time passes only where a rank waits, and who polls does not wait. So a test in vain lasts a 128th of the time since
// the first one after this rank last sent, and 20 ns at least: what a rank finds is at most that much older than the test.
// (SMPI's own option smpi/test makes every test last, also one that is not in vain.)
static double first_in_vain = -1;  // SMPI gives every rank its own

extern "C" int MPI_Isend(void const* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  first_in_vain = -1;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

// A test of no request is done here, because SMPI's leaves the flag as it was where the status is ignored.
extern "C" int MPI_Test(MPI_Request* request, int* complete, MPI_Status* status) {
  if (*request == MPI_REQUEST_NULL) {
    *complete = 1;
    return MPI_SUCCESS;
  }
  int const code = PMPI_Test(request, complete, status);
  if (code != MPI_SUCCESS || *complete) return code;
  double const now = simgrid::s4u::Engine::get_clock();
  if (first_in_vain < 0) first_in_vain = now;
  simgrid::s4u::this_actor::sleep_for(std::max(20e-9, (now - first_in_vain) / 128));
  return code;
}
