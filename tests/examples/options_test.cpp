// The command line of the language model: what is no number is refused by a sentence.
#include <stdexcept>
#include <string>
#include <string_view>

#include "../catch.hpp"
#include "language_model/options.hpp"

namespace {

std::string refusal(std::string_view option, std::string_view value) {
  try {
    lm::parse({option, value});
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("numbers of the command line are finite and not negative", "[examples][options]") {
  CHECK(refusal("--rate", "nan") == "--rate wants a number, not 'nan'");
  CHECK(refusal("--rate", "-nan") == "--rate wants a number, not '-nan'");
  CHECK(refusal("--rate", "inf") == "--rate wants a number, not 'inf'");
  CHECK(refusal("--clip", "nan") == "--clip wants a number, not 'nan'");
  CHECK(refusal("--rate", "-0.5") == "--rate wants a number, not '-0.5'");
  CHECK(refusal("--batches", "3.5") == "--batches wants a number, not '3.5'");
  CHECK(refusal("--seed", "-1") == "--seed wants a number, not '-1'");
  CHECK(lm::parse({"--rate", "0.5", "--clip", "0"}).learning_rate == 0.5);
}
