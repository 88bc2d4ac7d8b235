#define PARALLAX_COMPILING_MPI
#include "parallax/comm/mpi.hpp"
