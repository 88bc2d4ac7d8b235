// What is to be learnt: a text, a model and a training of it, and how well simpler models do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "corpus.hpp"
#include "ngram.hpp"
#include "options.hpp"
#include "streams.hpp"

namespace lm {

struct Task {
  Options options;
  Corpus corpus;
  std::int64_t batches = 0;
  double unigram = 0, bigram = 0;  // perplexities on the held-out text that the ranks read
};

// A text, a model and a training that take a second.
inline void make_tiny(Text& text, Options& options) {
  text.tokens.resize(std::min<std::size_t>(text.tokens.size(), 25'000));
  options.shape = {.vocabulary = 300, .embedding = 8, .cell = 12, .projection = 8, .samples = 32};
  options.streams = 4;
  if (options.batches == 0) options.batches = 30;
  options.checkpoints = 3;
}

inline Task make_task(Options options, Text const& text, int ranks) {
  Corpus corpus = make_corpus(text, static_cast<std::size_t>(options.shape.vocabulary));
  Id const vocabulary = corpus.vocabulary.size();
  options.shape.vocabulary = vocabulary;
  options.shape.samples = std::min(options.shape.samples, vocabulary / 2);

  Streams const train{corpus.train, options.streams, 0, ranks}, held_out{corpus.held_out, options.streams, 0, ranks};
  auto const one_pass = std::max<std::int64_t>(train.length() / options.steps, 1);
  auto const covered = std::span{corpus.held_out}.first(held_out.covered());
  double const unigram = perplexity(Unigram{corpus.train, vocabulary}, covered);
  double const bigram = perplexity(Bigram{corpus.train, vocabulary}, covered);
  return {options, std::move(corpus), options.batches > 0 ? options.batches : one_pass, unigram, bigram};
}

}  // namespace lm
