// Between processes of MPI, which stage the device's memory.
#include "every_pair.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/comm/staged.hpp"

std::vector<every_pair::Carrier> every_pair::carriers() {
  return {{"MPI", [](auto const& body) {
             px::MpiCommunicator mpi;
             px::CudaPool pool;
             px::CudaStream const stream;
             px::CallerStream caller;
             px::Staged<px::MpiCommunicator> world{mpi, {.stream = stream.get(), .memory = pool, .caller = &caller}};
             World any{std::ref(world)};
             body(any);
           }}};
}
