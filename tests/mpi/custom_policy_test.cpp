// TopK with error feedback, a policy from outside, on ranks of MPI.
#include "../catch.hpp"
#include "../policy/custom_policy.hpp"
#include "parallax/comm/mpi.hpp"

namespace px = parallax;
using namespace parallax_test;

TEST_CASE("what TopK promises holds on MPI", "[policy][custom][mpi]") {
  px::MpiCommunicator world;
  px::AnyCommunicator any{std::ref(world)};
  for (bool const hosts : {false, true}) {
    if (hosts && any.size() < 3) continue;
    INFO("seed 7, " << (hosts ? "two hosts" : "one level"));
    CHECK(top_k::every_step(any, hosts, 7) == "");
    CHECK(top_k::whole_runs(any, hosts, 7) == "");
    CHECK(top_k::refusals(any, hosts, 7) == "");
    CHECK(top_k::joined_ranks(any, hosts, 7) == "");
    CHECK(top_k::bytes_sent(any, hosts, 7) == "");
    CHECK(top_k::clipped(any, hosts, 7) == "");
  }
}
