// A training from its first batch to its last, under a policy that is chosen at run time.
#pragma once

#include <cstdint>
#include <string_view>

#include <parallax/comm/any.hpp>

#include "corpus.hpp"
#include "options.hpp"

namespace lm {

namespace px = parallax;

// What is to be learnt, and what simpler models make of it.
struct Task {
  Options options;
  Corpus corpus;
  std::int64_t batches = 0;
  double unigram = 0, bigram = 0;  // perplexities on the held-out text that the ranks read
};

// What a training showed, on all ranks alike but for the time.
struct Outcome {
  std::string_view policy;
  double words_per_second = 0;  // of all ranks together
  double megabytes_sent = 0;    // per step and rank
  double perplexity = 0;        // on held-out text, in the end
};

// Trains a new model under one of `policies`, by name. Rank 0 shows progress and, in a `report`, the perplexity at each
// checkpoint. Collective.
Outcome train(px::AnyCommunicator& world, Task const& task, std::string_view policy, bool report);

}  // namespace lm
