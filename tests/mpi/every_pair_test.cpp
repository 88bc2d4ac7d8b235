// Every policy with every optimizer on ranks of MPI: the bits of the oracle, which are those of threads.
#include "../catch.hpp"
#include "../equivalence/every_pair.hpp"
#include "../support/size.hpp"
#include "parallax/comm/mpi.hpp"

using namespace parallax_test;

TEST_CASE("every policy with every optimizer gives the oracle's bits on MPI", "[equivalence][mpi]") {
  px::MpiCommunicator world;
  std::vector<int> const hosts = GENERATE(std::vector<int>{}, std::vector<int>{0, 0, 1});
  if (world.size() < 3 && !hosts.empty()) return;
  for (bool const integers : {false, true}) {
    PairsCase const training{world.size(), hosts, integers, sized(15, 50, 50)};
    px::AnyCommunicator any{std::ref(world)};
    check_every_pair(training, {train_every_pair(any, training)});
  }
}
