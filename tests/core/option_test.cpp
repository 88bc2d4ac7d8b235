// Options of a variable's type: found on their axes in any order, counted, and told from types that are none.
#include "parallax/detail/core/option.hpp"

#include <type_traits>

#include "../catch.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

struct Fast {
  using axis = px::policy_axis;
};
struct Slow {
  using axis = px::policy_axis;
};
struct Lots {
  using axis = px::space_axis;
};
struct Stray {
  using axis = Lots;  // which is none
};

}  // namespace

TEST_CASE("an option is found on its axis wherever it stands, else the default is taken", "[core][option]") {
  STATIC_REQUIRE(std::is_same_v<px::option_or<px::policy_axis, Slow, Lots, double, Fast>, Fast>);
  STATIC_REQUIRE(std::is_same_v<px::option_or<px::policy_axis, Slow, Fast, Lots>, Fast>);
  STATIC_REQUIRE(std::is_same_v<px::option_or<px::policy_axis, Slow, Lots>, Slow>);
  STATIC_REQUIRE(std::is_same_v<px::option_or<px::policy_axis, Slow>, Slow>);
  STATIC_REQUIRE(std::is_same_v<px::option_or<px::scalar_axis, float, Lots, double>, double>);
  STATIC_REQUIRE(std::is_same_v<px::option_or<px::index_axis, void, px::Index<int>>, px::Index<int>>);
}

TEST_CASE("types without an axis, and two options on one, are told", "[core][option]") {
  STATIC_REQUIRE(px::all_are_options<>);
  STATIC_REQUIRE(px::all_are_options<Fast, Lots, float, px::Index<int>>);
  STATIC_REQUIRE_FALSE(px::all_are_options<Fast, int>);
  STATIC_REQUIRE_FALSE(px::all_are_options<px::Dense>);
  STATIC_REQUIRE_FALSE(px::all_are_options<Fast, Stray>);
  STATIC_REQUIRE(px::one_option_per_axis<Fast, Lots, float, px::Index<int>>);
  STATIC_REQUIRE_FALSE(px::one_option_per_axis<Fast, Slow>);
  STATIC_REQUIRE_FALSE(px::one_option_per_axis<float, Fast, double>);
}

TEST_CASE("the order of options makes no new type of variable", "[core][option]") {
  using A = px::Variable<px::Sparse, px::Adam, double, px::Hash, px::Index<std::int32_t>, px::AllGather>;
  using B = px::Variable<px::Sparse, px::AllGather, px::Index<std::int32_t>, px::Hash, double, px::Adam>;
  STATIC_REQUIRE(std::is_same_v<A, B>);
  STATIC_REQUIRE(std::is_same_v<px::Variable<px::Dense>, px::Variable<px::Dense, px::AllReduce, px::Sgd, float>>);
  STATIC_REQUIRE(std::is_same_v<px::Variable<px::Sparse>,
                                px::Variable<px::Sparse, px::PsShard, px::Cyclic, px::Index<std::int64_t>, px::HostSpace>>);
  STATIC_REQUIRE(std::is_same_v<px::Variable<px::Dense, px::presets::parameter_server>, px::Variable<px::Dense, px::PsShard>>);
  STATIC_REQUIRE_FALSE(std::is_same_v<px::Variable<px::Sparse, px::Adam>, px::Variable<px::Sparse, px::LazyAdam>>);
}
