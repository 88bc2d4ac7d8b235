// The typed collectives on one rank and on threads.
#include "collectives.hpp"

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
