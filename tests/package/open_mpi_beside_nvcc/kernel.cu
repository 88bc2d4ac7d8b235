// A file for nvcc that sees MPI and a communicator over it.
#include <mpi.h>

#include "parallax/comm/mpi.hpp"
#include "parallax/detail/core/config.hpp"

__global__ void fill(float* values) { values[threadIdx.x] = 1; }

int mpi_standard();
int mpi_standard() {
  int version = 0, minor_version = 0;
  MPI_Get_version(&version, &minor_version);
  return parallax::Communicator<parallax::MpiCommunicator> ? version : 0;
}
