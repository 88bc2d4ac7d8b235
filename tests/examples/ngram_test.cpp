// The models that the language model is compared with: proper distributions, and the values of small cases by hand.
#include "language_model/ngram.hpp"

#include <cmath>
#include <vector>

#include "../catch.hpp"

namespace {

std::vector<lm::Token> const text{0, 1, 0, 1, 0, 2, 0, 1, 3, 1, 0};
constexpr lm::Id vocabulary = 5;  // word 4 never occurs

}  // namespace

TEST_CASE("the probabilities after each word sum to one", "[examples][ngram]") {
  lm::Unigram const unigram{text, vocabulary};
  lm::Bigram const bigram{text, vocabulary};
  for (lm::Token before = 0; before < vocabulary; ++before) {
    double of_words = 0, of_pairs = 0;
    for (lm::Token word = 0; word < vocabulary; ++word) {
      of_words += unigram.probability(word);
      of_pairs += bigram.probability(before, word);
      CHECK(bigram.probability(before, word) > 0);
    }
    CHECK(of_words == Approx(1).epsilon(1e-12));
    CHECK(of_pairs == Approx(1).epsilon(1e-12));
  }
}

TEST_CASE("a pair's probability is that of Kneser and Ney", "[examples][ngram]") {
  lm::Bigram const bigram{text, vocabulary};
  // Pairs: 01 and 10 three times each; 02, 20, 13 and 31 once: six, and D = 4 / (4 + 2 * 0) = 1. Before 1 come 0 and 3.
  double const continuation = (2 - 1 + 1 * 4.0 / 5) / 6;
  CHECK(bigram.probability(0, 1) == Approx((3 - 1 + 1 * 2 * continuation) / 4).epsilon(1e-12));
  CHECK(bigram.probability(4, 1) == Approx(continuation).epsilon(1e-12));
}

TEST_CASE("perplexity is the inverse of the geometric mean of probabilities, the first token given",
          "[examples][ngram]") {
  lm::Unigram const unigram{text, vocabulary};
  double const product = unigram.probability(1) * unigram.probability(2);
  CHECK(lm::perplexity(unigram, std::vector<lm::Token>{4, 1, 2}) == Approx(1 / std::sqrt(product)).epsilon(1e-12));
  CHECK(lm::perplexity(lm::Unigram{{}, 8}, std::vector<lm::Token>{1, 2, 3}) == Approx(8).epsilon(1e-12));
}
