// What a policy has not sent: given back where a step was refused, and never mistaken for that of a gradient of another size.
#include "parallax/policy/residual.hpp"

#include <span>
#include <vector>

#include "../catch.hpp"
#include "parallax/core/error.hpp"

namespace px = parallax;

TEST_CASE("a gradient of another size than what is left is refused, and nothing is lost", "[policy][residual]") {
  px::Residual<float> left;
  std::vector<float> const three{1, 2, 3}, two{4, 5};
  auto const given = left.add(three);
  given[0] = 0;  // what was sent
  left.settled();
  auto const refusal = [&] {
    try {
      left.add(two);
    } catch (px::Error const& error) {
      return error;
    }
    return px::Error{px::Errc::aborted, -1, "", "", "nothing was thrown"};
  }();
  CHECK(refusal.code() == px::Errc::invalid_argument);
  CHECK(refusal.detail() == "what is left to be sent is of 3 elements, the gradient is of 2");
  CHECK(std::vector<float>(left.values().begin(), left.values().end()) == std::vector<float>{0, 2, 3});
  auto const sum = left.add(three);
  CHECK(std::vector<float>(sum.begin(), sum.end()) == std::vector<float>{1, 4, 6});
  CHECK_THROWS_AS(left.add(two), px::Error);  // a second update of the step
  left.refused();
  CHECK(std::vector<float>(left.values().begin(), left.values().end()) == std::vector<float>{0, 2, 3});
}
