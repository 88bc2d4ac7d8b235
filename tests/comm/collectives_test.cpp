// The typed collectives on one rank and on threads.
#include "collectives.hpp"

#include <array>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"

namespace px = parallax;

TEST_CASE("collectives on spans give what each is named for", "[comm][collectives]") {
  std::size_t const n = GENERATE(0u, 1u, 5u, 1000u);
  for (int const ranks : {1, 2, 3, 5}) {
    std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
    px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
      wrong[static_cast<std::size_t>(world.rank())] = parallax_test::wrong_collectives(world, n);
    });
    for (std::string const& names : wrong) {
      INFO(n << " elements, " << ranks << " ranks");
      CHECK(names == "");
    }
  }
  px::SelfCommunicator self;
  CHECK(parallax_test::wrong_collectives(self, n) == "");
}

TEST_CASE("a span of a wrong size is a misuse that names rank and sizes", "[comm][collectives]") {
  px::SelfCommunicator self;
  std::vector<float> const values(4);
  std::vector<float> part(3);
  CHECK_THROWS_AS(px::reduce_scatter(self, std::span<float const>{values}, std::span{part}), px::Error);
}

TEST_CASE("sums over threads have the bits of the documented order, of any size and in any memory", "[comm][collectives]") {
  for (int const ranks : {1, 2, 3, 4}) {
    std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
    px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
      wrong[static_cast<std::size_t>(world.rank())] = parallax_test::wrong_sums<float>(world, [](int rank) { return rank == 1; });
    });
    for (std::string const& sizes : wrong) CHECK(sizes == "");
  }
}

TEST_CASE("an array is summed and told as a vector is", "[comm][collectives]") {
  std::vector<double> sums(3), told(3);
  px::run_threads(3, [&](px::ThreadCommunicator& world) {
    double mine[] = {1.0 + world.rank(), 0.5};
    px::allreduce(world, std::span{mine});
    sums[static_cast<std::size_t>(world.rank())] = mine[0] + mine[1];
    std::array<int, 2> numbers{world.rank(), 7};
    px::broadcast(world, std::span{numbers}, 2);
    told[static_cast<std::size_t>(world.rank())] = numbers[0];
  });
  CHECK(sums == std::vector<double>(3, 7.5));
  CHECK(told == std::vector<double>(3, 2));
}

TEST_CASE("ranks that bring vectors of different sizes are told so", "[comm][collectives]") {
  for (int const ranks : {2, 3}) {
    std::vector<std::string> told(static_cast<std::size_t>(ranks));
    auto const body = [&](px::ThreadCommunicator& world) {
      std::vector<float> values(world.rank() == 1 ? 9u : 10u);
      try {
        px::allreduce(world, std::span{values});
      } catch (px::Error const& error) {
        told[static_cast<std::size_t>(world.rank())] = px::to_string(error.code());
        throw;
      }
    };
    CHECK_THROWS_AS(px::run_threads(ranks, body), px::Error);
    for (std::string const& what : told) CHECK(what == px::to_string(px::Errc::mismatch));
  }
}
