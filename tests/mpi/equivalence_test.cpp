// Ranks of MPI end with the same bits as thread ranks of the same number.
#include "../catch.hpp"
#include "../equivalence/mixed_models.hpp"
#include "parallax/comm/mpi.hpp"

using namespace parallax_test;

namespace {

std::vector<Case> trainings(int ranks) {
  using enum px::Reduce;
  std::vector<Case> all = {{.ranks = ranks, .reduce = mean, .clips = true, .seed = 301},
                           {.ranks = ranks, .reduce = mean_by_count, .seed = 302, .lent = true, .in_place = true},
                           {.ranks = ranks, .reduce = sum, .integers = true, .clips = true, .seed = 303, .fusion = {}},
                           {.ranks = ranks, .reduce = mean, .seed = 305, .overlap = false, .fusion = {}, .in_place = true}};
  if (ranks > 1) {
    std::vector<int> hosts(static_cast<std::size_t>(ranks), 0);
    hosts.back() = 1;
    all.push_back({.ranks = ranks, .hosts = hosts, .reduce = mean, .clips = true, .seed = 304});
  }
  return all;
}

}  // namespace

// Every rank trains twice: as one of all ranks of MPI, and as one of as many threads of its own.
TEMPLATE_LIST_TEST_CASE("training on MPI gives the bits of training on threads", "[equivalence][mpi]", MixedModels) {
  px::MpiCommunicator world;
  auto const rank = static_cast<std::size_t>(world.rank());
  for (Case const& training : trainings(world.size())) {
    INFO(TestType::name() << ", " << training.text());
    px::AnyCommunicator any{std::ref(world)};
    auto const on_mpi = train<TestType>(any, training);
    CHECK(same_bits(on_mpi, train_on_threads<TestType>(training)[rank]));
  }
}
