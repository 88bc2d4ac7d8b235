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

TEST_CASE("a root that is no rank, and counts for too few or too many ranks, are refused", "[comm][collectives]") {
  std::vector<int> named(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    std::vector<int> values(4, world.rank());
    std::vector<int> const sent(2);
    std::size_t const one[] = {2}, two[] = {1, 1}, three[] = {1, 1, 1};
    std::span<std::size_t const> const too_few{one}, right{two}, too_many{three};
    auto const expect = [&](std::string const& words, auto&& call) {
      try {
        call();
      } catch (px::Error const& error) {
        bool const typed = error.code() == px::Errc::invalid_argument && error.rank() == world.rank();
        named[static_cast<std::size_t>(world.rank())] += typed && std::string{error.what()}.find(words) != std::string::npos;
      }
    };
    expect("the root is -1, and", [&] { px::broadcast(world, std::span{values}, -1); });
    expect("the root is 2, and ranks are from 0 to 1", [&] { px::broadcast(world, std::span{values}, 2); });
    expect("send_counts has 1 elements", [&] { px::alltoallv<int>(world, sent, too_few, values, right); });
    expect("receive_counts has 3", [&] { px::alltoallv<int>(world, sent, right, values, too_many); });
    expect("counts has 3 elements", [&] { px::allgatherv<int>(world, sent, values, too_many); });
    px::broadcast(world, std::span{values}, 1);
    named[static_cast<std::size_t>(world.rank())] += values == std::vector<int>(4, 1);
  });
  CHECK(named == std::vector<int>(2, 6));
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
