// The language model trained by several ranks is the model trained by one rank on all their batches together.
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include <parallax/comm/thread.hpp>

#include "../catch.hpp"
#include "language_model/trainer.hpp"
#include "language_model_in_double.hpp"

namespace {

using namespace lm;

constexpr int losses_compared = 50;

// Words with the frequencies of a natural text, each likely to follow its own number: something to learn.
std::vector<Token> synthetic_text(std::size_t size, Id vocabulary) {
  std::vector<Token> tokens(size);
  Random random{17};
  for (std::size_t i = 0; i < size; ++i) {
    double const uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    auto const word = static_cast<Token>(std::exp(uniform * std::log(static_cast<double>(vocabulary))) - 1);
    tokens[i] = i > 0 && random() % 2 == 0 ? (tokens[i - 1] * 7 + 3) % static_cast<Token>(vocabulary) : word;
  }
  return tokens;
}

Options small_model() {
  Options options;
  options.shape = {.vocabulary = 200, .embedding = 6, .cell = 10, .projection = 5, .samples = 20};
  options.steps = 7;
  options.clip = 0.05;  // low enough that the clipping is at work
  return options;
}

// The loss per word of every step, the mean over ranks. Twelve streams in all, shared among the ranks.
template <class Preset>
std::vector<double> losses(int ranks, std::vector<Token> const& tokens) {
  Options options = small_model();
  options.streams = 12 / ranks;
  std::vector<double> result;
  px::run_threads(ranks, [&](px::ThreadCommunicator& own) {
    px::AnyCommunicator world{std::ref(own)};
    Trainer<Preset, double> trainer{world, options, tokens};
    for (int step = 0; step < losses_compared; ++step) {
      std::vector<double> loss{trainer.step()};
      px::allreduce(world, std::span{loss});
      if (world.rank() == 0) result.push_back(loss[0] / world.size());
    }
    trainer.session().finish();
  });
  return result;
}

template <class Preset>
void compare_with_one_rank(std::vector<Token> const& tokens, std::vector<double> const& expected) {
  for (int const ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    std::vector<double> const found = losses<Preset>(ranks, tokens);
    for (std::size_t step = 0; step < expected.size(); ++step) {
      INFO("step " << step << ": " << found[step] << " instead of " << expected[step]);
      REQUIRE(std::abs(found[step] - expected[step]) <= 1e-9 * expected[step]);
    }
  }
}

}  // namespace

TEST_CASE("the first fifty losses at several ranks are those of one rank on the concatenated batch", "[examples][lm]") {
  std::vector<Token> const tokens = synthetic_text(20'000, small_model().shape.vocabulary);
  std::vector<double> const one = losses<px::presets::hybrid>(1, tokens);
  REQUIRE(one.size() == losses_compared);
  CHECK(one.back() < one.front());
  compare_with_one_rank<px::presets::hybrid>(tokens, one);
  compare_with_one_rank<px::presets::all_reduce>(tokens, one);
}

TEST_CASE("another batch gives other losses, so the comparison can fail", "[examples][lm]") {
  std::vector<Token> const tokens = synthetic_text(20'000, small_model().shape.vocabulary);
  std::vector<Token> const others(tokens.begin() + 1, tokens.end());
  CHECK(std::abs(losses<px::presets::hybrid>(2, others)[5] - losses<px::presets::hybrid>(2, tokens)[5]) > 1e-9);
}
