// What each policy says about itself, and what a preset means for each kind.
#include "parallax/detail/policy/auto.hpp"
#include "parallax/detail/policy/presets.hpp"

#include <type_traits>

#include "../catch.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace px = parallax;

TEST_CASE("policies say who owns what, and model the concepts that a variable asks for", "[policy]") {
  STATIC_REQUIRE_FALSE(px::AllReduce::exchange<px::Dense>::sharded);
  STATIC_REQUIRE(px::is_densified<px::AllReduce::exchange<px::Sparse>>);
  STATIC_REQUIRE(px::PsShard::exchange<px::Dense>::sharded);
  STATIC_REQUIRE_FALSE(px::is_direct<px::PsShard::exchange<px::Sparse>>);
  STATIC_REQUIRE_FALSE(px::AllGather::exchange<px::Sparse>::sharded);
  STATIC_REQUIRE(baseline::NaivePs::exchange<px::Sparse>::sharded);
  STATIC_REQUIRE(px::is_direct<baseline::NaivePs::exchange<px::Sparse>>);
  STATIC_REQUIRE(px::is_adaptive<px::Auto::exchange<px::Sparse>>);
  STATIC_REQUIRE((px::UpdatePolicy<px::AllReduce> && px::UpdatePolicy<px::PsShard> && px::UpdatePolicy<px::AllGather> &&
                  px::UpdatePolicy<px::Auto> && px::UpdatePolicy<baseline::NaivePs>));
  STATIC_REQUIRE((px::Exchange<px::AllReduce::exchange<px::Dense>> && px::Exchange<px::PsShard::exchange<px::Sparse>> &&
                  px::Exchange<px::AllGather::exchange<px::Sparse>> && px::Exchange<px::Auto::exchange<px::Sparse>> &&
                  px::Exchange<baseline::NaivePs::exchange<px::Sparse>>));
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
  STATIC_REQUIRE(std::is_same_v<policy_for<baseline::naive_parameter_server, Dense>, px::PsShard>);
  STATIC_REQUIRE(std::is_same_v<policy_for<baseline::naive_parameter_server, Sparse>, baseline::NaivePs>);
  STATIC_REQUIRE(std::is_same_v<policy_for<px::PsShard, Dense>, px::PsShard>);
}
