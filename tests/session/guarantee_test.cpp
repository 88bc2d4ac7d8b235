// What a session promises when a rank refuses or ranks differ, between threads.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "guarantee.hpp"

namespace parallax_test::guarantee {
namespace {

int refusals = 0;

template <class MakeTopology>
void check_all_faults(int ranks, std::uint64_t seed, MakeTopology const& topology) {
  auto const plan = plan_of(seed);
  auto const jobs = [&](bool with_faults) {
    return on_ranks(ranks, [&](px::ThreadCommunicator& world) {
      px::AnyCommunicator any{std::ref(world)};
      return train(topology(any), seed, plan, with_faults);
    });
  };
  refusals += check(jobs(true), jobs(false), seed, plan);
}

auto const flat = [](px::AnyCommunicator& world) { return px::Topology{world}; };

}  // namespace

TEST_CASE("a refusal on one rank is the same error on all, changes no bit, and the next step is right", "[session]") {
  int const ranks = GENERATE(2, 3, 4);
  constexpr std::array<std::uint64_t, 3> all_seeds{1, 20260501, 77};
  auto const seeds = sized<std::size_t>(1, 2, 3);  // what is saved goes to the disk
  for (std::uint64_t const seed : std::span{all_seeds}.first(seeds)) check_all_faults(ranks, seed, flat);
}

TEST_CASE("a refusal is the same on all ranks of two hosts", "[session]") {
  check_all_faults(4, 5, [](px::AnyCommunicator& world) { return px::Topology{world, {0, 0, 1, 1}}; });
  check_all_faults(3, 6, [](px::AnyCommunicator& world) { return px::Topology{world, {7, 7, 3}}; });
}

TEST_CASE("the refusals above were at least 700", "[session]") { CHECK(refusals >= 700); }

}  // namespace parallax_test::guarantee
