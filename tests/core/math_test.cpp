// The square root that rules use is the correctly rounded one.
#include "parallax/detail/core/math.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "../catch.hpp"

namespace px = parallax;

TEST_CASE("px::sqrt rounds correctly in float and double", "[core][math]") {
  std::mt19937_64 random{3};
  for (int i = 0; i < 10'000; ++i) {
    float const x = std::ldexp(static_cast<float>(random() >> 40), static_cast<int>(random() % 100) - 60);
    CHECK(px::sqrt(x) == static_cast<float>(std::sqrt(static_cast<long double>(x))));
    double const y = static_cast<double>(x), root = px::sqrt(y);
    long double const exact = std::sqrt(static_cast<long double>(y));
    CHECK(std::fabs(static_cast<long double>(root) - exact) <=
          std::fabs(static_cast<long double>(std::nextafter(root, 1e300)) - exact));
  }
  CHECK(px::sqrt(0.0) == 0.0);
  CHECK(std::isnan(px::sqrt(-1.0f)));
  CHECK(px::sqrt(std::numeric_limits<double>::infinity()) == std::numeric_limits<double>::infinity());
}
