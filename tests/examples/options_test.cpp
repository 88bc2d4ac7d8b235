// The command line of the language model: what is no number is refused by a sentence.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../catch.hpp"
#include "language_model/options.hpp"

namespace {

std::string refusal(std::vector<std::string_view> const& arguments) {
  try {
    lm::parse(arguments);
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return {};
}
std::string refusal(std::string_view option, std::string_view value) { return refusal({option, value}); }

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

TEST_CASE("a mode is a policy, and staleness has a bound or none", "[examples][options]") {
  lm::Options const bounded = lm::parse({"--mode", "async", "--staleness", "3", "--servers", "1"});
  CHECK(bounded.policy == "async");
  CHECK(bounded.staleness == 3);
  CHECK(bounded.servers == 1);
  CHECK_FALSE(bounded.by_staleness);
  lm::Options const unbounded = lm::parse({"--policy", "async", "--staleness", "any", "--by-staleness"});
  CHECK(unbounded.staleness == -1);
  CHECK(unbounded.by_staleness);
  CHECK(refusal("--staleness", "none") == "--staleness wants a number, not 'none'");
  CHECK(refusal("--mode", "sync") == "no such policy: sync");
}

TEST_CASE("checkpoints want a folder, and one policy", "[examples][options]") {
  CHECK(refusal({"--policy", "hybrid", "--resume"}) == "--resume goes on from what --save FOLDER has saved: name the folder");
  CHECK(refusal({"--save-every", "5"}) == "--save-every says how often --save FOLDER saves: name the folder");
  CHECK(refusal({"--save"}) == "--save wants a value");
  CHECK(refusal({"--save", "run"}) == "--save is for --policy hybrid, not for compare");
  CHECK(refusal({"--policy", "auto", "--save", "run"}) == "--save is for --policy hybrid, not for auto");
  CHECK(refusal({"--policy", "hybrid", "--save", ""}) == "--save wants the name of a folder");
  CHECK(refusal({"--policy", "hybrid", "--save", "--resume"}) == "--save wants the name of a folder");
  lm::Options const options = lm::parse({"--resume", "--save", "run", "--save-every", "5", "--policy", "hybrid"});
  CHECK(options.save == "run");
  CHECK(options.save_every == 5);
  CHECK(options.resume);
}

TEST_CASE("the help fits into its terminal, and tells of every option and every default", "[examples][options]") {
  for (std::size_t const columns : {40, 80, 200}) {
    std::string const help = lm::help(columns);
    std::size_t most = 0;
    for (std::size_t at = 0, end; at < help.size(); at = end + 1) {
      end = help.find('\n', at);
      most = std::max(most, example::columns_for(help.substr(at, end - at)));
    }
    CHECK(most <= columns);
    std::string words;  // however they are broken
    for (char const c : help)
      if (c != ' ' && c != '\n') words += c;
    for (char const* const option :
         {"--text",       "--ranks",      "--policy",      "--mode", "--staleness",  "--by-staleness", "--backup",
          "--servers",    "--vocabulary", "--embedding",   "--cell", "--projection", "--samples",      "--batch",
          "--steps",      "--batches",    "--checkpoints", "--rate", "--clip",       "--seed",         "--save",
          "--save-every", "--resume",     "--smoke",       "--help"})
      CHECK(words.find(option) != words.npos);
    for (auto const policy : lm::policies) CHECK(words.find(policy) != words.npos);
    lm::Options const usual;
    CHECK(usual.learning_rate == 0.3);
    for (char const* const said : {"(8000)", "(0.3)", "(10.0)", "(compare)", "(4)", "(16)", "(64)", "(256)", "(3)"})
      CHECK(words.find(said) != words.npos);
  }
}
