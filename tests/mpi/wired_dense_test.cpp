// Dense variables whose policy has a wire, on ranks of MPI: what travels is what travels between threads.
#include "../catch.hpp"
#include "../policy/wired_dense.hpp"
#include "parallax/comm/mpi.hpp"

namespace px = parallax;

TEST_CASE("dense gradients travel as the policy's wire has them on MPI", "[policy][wire][mpi]") {
  px::MpiCommunicator world;
  CHECK(parallax_test::wired_dense::all_wrong(world, {}) == "");
  std::vector<int> const hosts = world.size() < 3 ? std::vector<int>(static_cast<std::size_t>(world.size())) : std::vector{0, 0, 1};
  CHECK(parallax_test::wired_dense::all_wrong(world, hosts) == "");
}
