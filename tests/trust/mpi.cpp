// Ranks of MPI under a lowered limit of messages, and behind a hostile communicator: the right sums, the bits of thread ranks.
#include <cstdlib>
#include <string>
#include <vector>

#include "../comm/hostile.hpp"
#include "../equivalence/mixed_models.hpp"
#include "parallax/comm/mpi.hpp"
#include "sizes.hpp"
#include "table.hpp"

using namespace parallax_test;

TEST_CASE("R11 sizes about MPI's largest message are right", "[trust][mpi][limits]") {
  px::MpiCommunicator mpi{MPI_COMM_WORLD, {.largest_message = 1000, .shared_memory = false}};
  px::AnyCommunicator world{std::ref(mpi)};
  Table table{"R11 sizes about a largest message of 1000 bytes on MPI", mpi.rank() == 0};
  for (Sized const& each : train_sizes(world, 500, 1000)) table.count(each.kind, each.complaint);
  table.check(500);
}

TEMPLATE_LIST_TEST_CASE("R17 hostile MPI ranks give the bits of undisturbed threads", "[trust][mpi][delays]", MixedModels) {
  px::MpiCommunicator mpi{MPI_COMM_WORLD, {.largest_message = 500, .shared_memory = false}};
  auto const rank = static_cast<std::size_t>(mpi.rank());
  Case const training{.ranks = mpi.size(), .reduce = px::Reduce::mean, .clips = true, .seed = 51, .steps = 8};
  auto const undisturbed = train_on_threads<TestType>(training);
  Table table{"R17 runs on hostile MPI ranks: " + TestType::name(), mpi.rank() == 0};
  for (std::uint64_t run = 0; run < 5; ++run) {
    Hostility hostility{.seed = run, .latest = 5, .reversed = true, .naps = 50};
    if (run % 2) hostility.largest = 64;
    px::AnyCommunicator world{HostileCommunicator<px::MpiCommunicator>{mpi, hostility}};
    bool const same = same_bits(train<TestType>(world, training), undisturbed[rank]);
    table.count("5 runs", same ? "" : "other bits in run " + std::to_string(run));
  }
  table.check(5);
}
