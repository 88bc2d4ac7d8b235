// What a language model has to beat: the frequency of words, and of pairs of words.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text.hpp"

namespace lm {

// P(w) = (count(w) + 1) / (tokens + V).
class Unigram {
 public:
  Unigram(std::span<Token const> train, Id vocabulary) : counts_(static_cast<std::size_t>(vocabulary), 1.0) {
    for (Token const token : train) counts_[static_cast<std::size_t>(token)] += 1;
    total_ = static_cast<double>(train.size()) + static_cast<double>(vocabulary);
  }

  double probability(Token word) const { return counts_[static_cast<std::size_t>(word)] / total_; }
  double probability(Token /*before*/, Token word) const { return probability(word); }

 private:
  std::vector<double> counts_;
  double total_;
};

// Pairs of words with interpolated Kneser-Ney smoothing (Chen and Goodman 1999). With n_k the number of distinct pairs
// seen k times, D = n_1 / (n_1 + 2 n_2), and N(..) numbers of distinct pairs:
//   P(w | v) = (max(count(v w) - D, 0) + D N(v .) C(w)) / count(v .),
//   C(w) = (max(N(. w) - D, 0) + D |{w : N(. w) > 0}| / V) / N(. .).
class Bigram {
 public:
  Bigram(std::span<Token const> train, Id vocabulary) : after_(static_cast<std::size_t>(vocabulary)) {
    count_pairs(train);
    discount_ = discount(pairs_);
    smooth_words();
  }

  double probability(Token before, Token word) const {
    double const continuation = continuation_[static_cast<std::size_t>(word)];
    auto const& [total, kinds] = after_[static_cast<std::size_t>(before)];
    if (total == 0) return continuation;
    auto const found = std::ranges::lower_bound(pairs_, key(before, word), {}, &Pair::key);
    double const count = found != pairs_.end() && found->key == key(before, word) ? found->count : 0;
    return (std::max(count - discount_, 0.0) + discount_ * kinds * continuation) / total;
  }

 private:
  struct Pair {
    std::uint64_t key;
    double count;
  };
  struct Followers {
    double total = 0;  // count(v .)
    double kinds = 0;  // N(v .)
  };

  static std::uint64_t key(Token before, Token word) {
    return static_cast<std::uint64_t>(before) << 32 | static_cast<std::uint64_t>(word);
  }

  void count_pairs(std::span<Token const> train) {
    std::vector<std::uint64_t> keys;
    for (std::size_t k = 1; k < train.size(); ++k) keys.push_back(key(train[k - 1], train[k]));
    std::ranges::sort(keys);
    for (std::uint64_t const k : keys) {
      if (pairs_.empty() || pairs_.back().key != k) pairs_.push_back({k, 0});
      pairs_.back().count += 1;
    }
    for (Pair const& pair : pairs_) {
      auto& followers = after_[pair.key >> 32];
      followers.total += pair.count;
      followers.kinds += 1;
    }
  }

  static double discount(std::vector<Pair> const& pairs) {
    auto const once = static_cast<double>(std::ranges::count(pairs, 1.0, &Pair::count));
    auto const twice = static_cast<double>(std::ranges::count(pairs, 2.0, &Pair::count));
    return once > 0 ? once / (once + 2 * twice) : 0.5;
  }

  void smooth_words() {
    continuation_.assign(after_.size(), 0.0);
    for (Pair const& pair : pairs_) continuation_[pair.key & 0xFFFF'FFFF] += 1;
    auto const words = static_cast<double>(continuation_.size());
    auto const seen = words - static_cast<double>(std::ranges::count(continuation_, 0.0));
    auto const all = static_cast<double>(pairs_.size());
    for (double& c : continuation_) c = (std::max(c - discount_, 0.0) + discount_ * seen / words) / all;
  }

  std::vector<Pair> pairs_;           // by key
  std::vector<Followers> after_;      // by word
  std::vector<double> continuation_;  // C, by word
  double discount_ = 0;
};

// exp of the mean of -log P(tokens[k] | tokens[k - 1]) over all k > 0: the targets of Streams, for its first covered()
// tokens.
template <class Model>
double perplexity(Model const& model, std::span<Token const> tokens) {
  double sum = 0;
  for (std::size_t k = 1; k < tokens.size(); ++k) sum -= std::log(model.probability(tokens[k - 1], tokens[k]));
  return std::exp(sum / static_cast<double>(tokens.size() - 1));
}

}  // namespace lm
