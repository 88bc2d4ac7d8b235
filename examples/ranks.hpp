// The ranks of an example, chosen when it starts: those of mpiexec where it runs under one, else threads.
#pragma once

#include <cstdlib>
#include <functional>

#include <parallax/comm/any.hpp>
#include <parallax/comm/thread.hpp>
#ifdef PARALLAX_HAS_MPI
#include <parallax/comm/mpi.hpp>
#endif

namespace example {

namespace px = parallax;

#ifdef PARALLAX_HAS_MPI
inline bool under_mpiexec() {
  return std::getenv("PMI_RANK") || std::getenv("PMIX_RANK") || std::getenv("OMPI_COMM_WORLD_RANK");
}
#endif

// Calls `body` on every rank, on `threads` of them without mpiexec, and returns what rank 0's returned (under mpiexec:
// this process's). Its communicator may be of any kind, so that a training is compiled once and not once for each kind.
inline int run_ranks([[maybe_unused]] int argc, [[maybe_unused]] char** argv, int threads,
                     std::function<int(px::AnyCommunicator&)> const& body) {
#ifdef PARALLAX_HAS_MPI
  if (under_mpiexec())
    return px::run_mpi(argc, argv, [&](px::MpiCommunicator& own) {
      px::AnyCommunicator world{std::ref(own)};
      return body(world);
    });
#endif
  int status = 0;
  px::run_threads(threads, [&](px::ThreadCommunicator& own) {
    px::AnyCommunicator world{std::ref(own)};
    int const result = body(world);
    if (world.rank() == 0) status = result;
  });
  return status;
}

}  // namespace example
