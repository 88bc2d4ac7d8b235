// What each policy says about itself, and what a preset means for each kind.
#include "parallax/policy/policy.hpp"

#include <type_traits>

#include "../catch.hpp"

namespace px = parallax;

TEST_CASE("policies say who owns what and how a sparse gradient travels", "[policy]") {
  STATIC_REQUIRE_FALSE(px::AllReduce::exchange<px::Dense>::sharded);
  STATIC_REQUIRE(px::AllReduce::exchange<px::Sparse>::densified);
  STATIC_REQUIRE(px::PsShard::exchange<px::Dense>::sharded);
  STATIC_REQUIRE(px::PsShard::exchange<px::Sparse>::coalesced);
  STATIC_REQUIRE_FALSE(px::AllGather::exchange<px::Sparse>::sharded);
  STATIC_REQUIRE(px::NaivePs::exchange<px::Sparse>::sharded);
  STATIC_REQUIRE_FALSE(px::NaivePs::exchange<px::Sparse>::coalesced);
  STATIC_REQUIRE((px::UpdatePolicy<px::AllReduce> && px::UpdatePolicy<px::PsShard> && px::UpdatePolicy<px::AllGather> &&
                  px::UpdatePolicy<px::NaivePs>));
  STATIC_REQUIRE_FALSE(px::UpdatePolicy<int>);
}

TEST_CASE("a preset resolves by the variable's kind, a policy is itself", "[policy]") {
  using px::policy_for, px::Dense, px::Sparse;
  STATIC_REQUIRE(std::is_same_v<policy_for<px::presets::hybrid, Dense>, px::AllReduce>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::presets::hybrid, Sparse>, px::PsShard>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::presets::all_reduce, Sparse>, px::AllReduce>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::presets::parameter_server, Dense>, px::PsShard>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::presets::all_gather, Dense>, px::AllReduce>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::presets::all_gather, Sparse>, px::AllGather>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::presets::naive_parameter_server, Dense>, px::PsShard>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::presets::naive_parameter_server, Sparse>, px::NaivePs>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::PsShard, Dense>, px::PsShard>);
}
