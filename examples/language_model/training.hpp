// A training from its first batch to its last, under a policy that is chosen at run time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <parallax/comm/any.hpp>

#include "saving.hpp"
#include "task.hpp"

namespace lm {

namespace px = parallax;

// What a training showed, on all ranks alike but for the time.
struct Outcome {
  std::string_view policy;
  double words_per_second = 0;  // of all ranks together
  // Per step: by a rank on average, and by the busiest one.
  double megabytes_sent = 0, most_megabytes_sent = 0;
  double perplexity = 0;     // on held-out text, in the end
  std::int64_t batches = 0;  // with those before it was resumed
  std::string saved;         // the last checkpoint, if any was saved: its folder
  bool stopped = false;      // by a signal, after so many batches; it is saved, and nothing was evaluated
};

// How far a training has come when its model is looked at; on all ranks alike but for the time.
struct Checkpoint {
  std::int64_t batches = 0;
  double seconds = 0;                                  // of training, without what looking takes
  double megabytes_sent = 0, most_megabytes_sent = 0;  // by a rank on average, and by the busiest one
  double perplexity = 0;                               // on held-out text
};
using AtCheckpoint = std::function<void(Checkpoint const&)>;

// Trains a new model under one of `policies`, by name; every rank calls `at_checkpoint` so many times, after equally many
// batches. Rank 0 shows progress, under `title` and the policy's name. With `make_saving`, under the policy `hybrid`, it is saved as the
// options say, and goes on from what was saved. Collective.
Outcome train(px::AnyCommunicator& world, Task const& task, std::string_view policy, std::string const& title, int checkpoints,
              AtCheckpoint const& at_checkpoint, MakeSaving make_saving = nullptr);

}  // namespace lm
