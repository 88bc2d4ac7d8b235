// The component mpi: one rank, started without mpiexec.
#include <cstdio>

#include <parallax/comm/mpi.hpp>

namespace px = parallax;

int main(int argc, char** argv) {
  return px::run_mpi(argc, argv, [](px::MpiCommunicator& world) {
    std::printf("with mpi: rank %d of %d\n", world.rank(), world.size());
    return world.rank() == 0 && world.size() == 1 ? 0 : 1;
  });
}
