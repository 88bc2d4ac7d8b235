// Types told apart, and named, without RTTI.
#include "parallax/detail/core/type.hpp"

#include <string>
#include <vector>

#include "../catch.hpp"

namespace px = parallax;

namespace {
struct Hidden {};
}  // namespace
struct Own {};
template <class T>
struct Of {};

TEST_CASE("a type's tag is its own", "[core][type]") {
  CHECK(px::type_tag<Own>() == px::type_tag<Own>());
  CHECK(px::type_tag<Own>() != px::type_tag<Of<Own>>());
  CHECK(px::type_tag<Own>() != px::type_tag<Own const>());
  CHECK(px::type_tag<Hidden>() != px::type_tag<Own>());
}

TEST_CASE("a type is called as the program spells it", "[core][type]") {
  STATIC_REQUIRE(px::name_of_type<int>() == "int");
  CHECK(std::string{px::name_of_type<Own>()} == "Own");
  CHECK(std::string{px::name_of_type<Of<Own>>()} == "Of<Own>");
  CHECK_THAT((std::string{px::name_of_type<std::vector<double>>()}), parallax_test::contains("vector<double"));
  CHECK_THAT(std::string{px::name_of_type<Hidden>()}, parallax_test::contains("::Hidden"));
}
