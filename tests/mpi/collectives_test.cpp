// The typed collectives on ranks of MPI: what each is named for, and MPI's own results.
#include "../comm/collectives.hpp"

#include <mpi.h>

#include <cmath>

#include "../catch.hpp"
#include "parallax/comm/mpi.hpp"

namespace px = parallax;

TEST_CASE("collectives on spans give what each is named for on MPI", "[comm][mpi]") {
  px::MpiCommunicator world;
  for (std::size_t const n : {0u, 1u, 5u, 1000u}) CHECK(parallax_test::wrong_collectives(world, n) == "");
}

TEST_CASE("the sum is MPI's own but for its last bits", "[comm][mpi]") {
  px::MpiCommunicator world;
  std::size_t const n = 1000;
  std::vector<double> ours = parallax_test::brought_by<double>(world.rank(), n), theirs = ours;
  px::allreduce(world, std::span{ours});
  MPI_Allreduce(MPI_IN_PLACE, theirs.data(), static_cast<int>(n), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < n; ++i) REQUIRE(std::abs(ours[i] - theirs[i]) <= 1e-15 * world.size() * std::abs(theirs[i]));
}

TEST_CASE("sums over MPI have the bits of the documented order, of any size and in any memory", "[comm][mpi]") {
  bool const shared_memory = GENERATE(true, false);
  px::MpiCommunicator world{MPI_COMM_WORLD, {.shared_memory = shared_memory}};
  for (int const sharing : {0, 1, 2, 7}) {
    INFO("ranks with shared memory: " << sharing);
    CHECK(parallax_test::wrong_sums<float>(world, [&](int rank) { return sharing >> rank & 1; }) == "");
  }
  CHECK(parallax_test::wrong_sums<double>(world, [](int rank) { return rank == 0; }) == "");
}
