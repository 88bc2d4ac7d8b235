// Tables under Auto on a device: their rows move from method to method and owner to owner, and keep every bit.
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "../catch.hpp"
#include "../session/adaptive.hpp"
#include "../support/size.hpp"
#include "deferred.hpp"
#include "parallax/comm/cuda_thread.hpp"
#include "parallax/kernel/cuda.cuh"

namespace {

namespace px = parallax;
using namespace parallax_test::adaptive;

template <class Body>
std::vector<Told> on_devices(int ranks, Body const& body) {
  std::vector<Told> told(static_cast<std::size_t>(ranks));
  px::run_cuda_threads(ranks, [&](px::CudaThreadCommunicator& world) {
    told[static_cast<std::size_t>(world.rank())] = body(world);
  });
  return told;
}

}  // namespace

TEMPLATE_TEST_CASE("rows on a device that move from method to method keep every bit, and the optimizer's state", "[cuda][auto]",
                   (std::tuple<px::Adagrad, float, px::Cyclic>), (std::tuple<px::Adam, double, px::Hash>)) {
  using O = std::tuple_element_t<0, TestType>;
  using T = std::tuple_element_t<1, TestType>;
  using P = std::tuple_element_t<2, TestType>;
  check_wandering({1, 3}, [](int ranks, bool hosts) {
    return on_devices(ranks, [&](auto& world) { return wander<O, T, P, px::CudaSpace>(world, hosts); });
  });
}

TEST_CASE("rows on a device move in whatever order streams take", "[cuda][auto]") {
  std::uint64_t const first = emulated::first_seed("orders of streams");
  for (std::uint64_t seed = first; seed < first + parallax_test::sized(2u, 6u, 6u); ++seed) {
    INFO("PARALLAX_SEED=" << seed);
    emulated::Deferred const deferred{seed};
    auto const told = on_devices(3, [](auto& world) {
      auto moved = wander<px::Adagrad, float, px::Cyclic, px::CudaSpace>(world, false);
      moved.wrong += search<px::LazyAdam, float, px::Hash, px::CudaSpace>(world, false).wrong;
      return moved;
    });
    for (Told const& mine : told) {
      CHECK(mine.wrong == 0);
      CHECK(mine == told[0]);
    }
  }
}

TEST_CASE("a search on a device deals the rows anew between steps, and handles of earlier pulls stay good", "[cuda][auto]") {
  auto const told =
      on_devices(3, [](auto& world) { return search<px::Adagrad, float, px::Block, px::CudaSpace>(world, false); });
  for (Told const& mine : told) {
    CHECK(mine.wrong == 0);
    CHECK(mine == told[0]);
    CHECK(mine.methods[1] != mine.methods[0]);
  }
}
