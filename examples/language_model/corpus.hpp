// From a text to what a model learns from: a vocabulary by frequency, training tokens, held-out tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "text.hpp"

namespace lm {

// The most frequent words, id 0 the most frequent; ties go to the word that occurs first. <eos> and <unk> are words
// among the others: <unk> stands for all words that the limit cuts off, and is as frequent as they are together.
class Vocabulary {
 public:
  Vocabulary() = default;

  // Counts `tokens`, a part of `text`, and keeps at most `limit` words (>= 2), <eos> and <unk> among them.
  Vocabulary(Text const& text, std::span<Token const> tokens, std::size_t limit) {
    if (limit < 2) throw std::invalid_argument{"a vocabulary holds at least <eos> and <unk>"};
    std::vector<std::int64_t> counts(text.words.size());
    for (Token const token : tokens) ++counts[static_cast<std::size_t>(token)];
    std::vector<Token> order = seen_words(counts);
    sort_by_frequency(order, counts);
    for (; order.size() > limit - 2; order.pop_back())
      counts[unknown_word] += counts[static_cast<std::size_t>(order.back())];
    order.push_back(end_of_paragraph);
    order.push_back(unknown_word);
    sort_by_frequency(order, counts);
    number(order, text, counts);
  }

  Id size() const { return static_cast<Id>(words_.size()); }
  Token unknown() const { return ids_[unknown_word]; }
  std::string const& word(Id id) const { return words_[static_cast<std::size_t>(id)]; }
  std::int64_t count(Id id) const { return counts_[static_cast<std::size_t>(id)]; }

  // The ids of tokens of the text that the vocabulary was made from.
  std::vector<Token> encode(std::span<Token const> tokens) const {
    std::vector<Token> ids(tokens.size());
    std::ranges::transform(tokens, ids.begin(), [this](Token token) { return ids_[static_cast<std::size_t>(token)]; });
    return ids;
  }

 private:
  static std::vector<Token> seen_words(std::vector<std::int64_t> const& counts) {
    std::vector<Token> words;
    for (std::size_t k = unknown_word + 1; k < counts.size(); ++k) {
      if (counts[k] > 0) words.push_back(static_cast<Token>(k));
    }
    return words;
  }

  static void sort_by_frequency(std::vector<Token>& words, std::vector<std::int64_t> const& counts) {
    auto const key = [&](Token word) { return std::pair{-counts[static_cast<std::size_t>(word)], word}; };
    std::ranges::sort(words, {}, key);
  }

  void number(std::vector<Token> const& order, Text const& text, std::vector<std::int64_t> const& counts) {
    ids_.assign(text.words.size(), -1);
    for (Token const word : order) {
      ids_[static_cast<std::size_t>(word)] = static_cast<Token>(words_.size());
      words_.push_back(text.words[static_cast<std::size_t>(word)]);
      counts_.push_back(counts[static_cast<std::size_t>(word)]);
    }
    std::ranges::replace(ids_, Token{-1}, Token{ids_[unknown_word]});
  }

  std::vector<std::string> words_;    // by id
  std::vector<std::int64_t> counts_;  // by id
  std::vector<Token> ids_;            // by the text's own number of a word
};

// A text split in two. Ids are those of `vocabulary`, which has counted the training part only.
struct Corpus {
  Vocabulary vocabulary;
  std::vector<Token> train;
  std::vector<Token> held_out;
};

// Holds out every `every`-th block of the text, so that both parts cover all of it, first page to last. A block has up
// to `block` tokens, fewer in a short text: at least four blocks are held out of a text of `4 * every` tokens or more.
inline Corpus make_corpus(Text const& text, std::size_t vocabulary_limit, std::size_t every = 40,
                          std::size_t block = 1000) {
  std::size_t const size = std::clamp<std::size_t>(text.tokens.size() / (4 * every), 1, block);
  std::vector<Token> train;
  std::vector<Token> held_out;
  for (std::size_t at = 0; at < text.tokens.size(); at += size) {
    auto const part = std::span{text.tokens}.subspan(at, std::min(size, text.tokens.size() - at));
    auto& target = (at / size + 1) % every == 0 ? held_out : train;
    target.insert(target.end(), part.begin(), part.end());
  }
  Corpus corpus{Vocabulary{text, train, vocabulary_limit}, {}, {}};
  corpus.train = corpus.vocabulary.encode(train);
  corpus.held_out = corpus.vocabulary.encode(held_out);
  return corpus;
}

}  // namespace lm
