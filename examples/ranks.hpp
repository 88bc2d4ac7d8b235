// What the examples' ranks can be, by their command lines: threads, processes that mpiexec, srun or torchrun started, or processes on
// the hosts of a file (px::run).
#pragma once

#include <parallax/comm/any.hpp>
#include <parallax/comm/run.hpp>
#include <parallax/comm/socket.hpp>
#ifdef PARALLAX_HAS_MPI
#include <parallax/comm/mpi.hpp>
#endif
