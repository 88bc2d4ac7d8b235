// The trainings: the model's trainer is compiled here, once for each policy.
#include "training.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>

#include "../../benchmarks/baseline/naive_ps.hpp"
#include "../progress.hpp"
#include "trainer.hpp"

namespace lm {

namespace {

using Clock = std::chrono::steady_clock;

// What a training has done so far, without its evaluations.
struct Record {
  std::int64_t batches = 0;
  double seconds = 0;
  double bytes_sent = 0;  // by this rank
  double loss = 0;        // of this rank per word, smoothed
};

template <class Trainer>
void train_until(std::int64_t batches, Trainer& trainer, Record& record, example::Progress& progress) {
  auto const& traffic = trainer.session().traffic();
  auto const sent_before = traffic.payload_sent();
  auto const start = Clock::now();
  for (; record.batches < batches; ++record.batches) {
    double const loss = trainer.step();
    record.loss = record.batches == 0 ? loss : 0.98 * record.loss + 0.02 * loss;
    progress.update(record.batches, "sampled loss " + std::to_string(record.loss).substr(0, 5));
  }
  record.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  record.bytes_sent += static_cast<double>(traffic.payload_sent() - sent_before);
}

double mean_over_ranks(double value, px::AnyCommunicator& world) {
  px::allreduce(world, std::span{&value, 1});
  return value / world.size();
}

// Collective.
template <class Preset>
Outcome train_under(px::AnyCommunicator& world, Task const& task, std::string_view policy, std::string title, int checkpoints,
                    AtCheckpoint const& at_checkpoint) {
  Options const& options = task.options;
  Trainer<Preset, float> trainer{world, options, task.corpus.train};
  (title += title.empty() ? "" : ": ") += policy;
  title.resize(37, ' ');
  example::Progress progress{title, task.batches, world.rank() == 0};
  Record record;
  Checkpoint now;
  checkpoints = std::max(checkpoints, 1);
  for (int checkpoint = 1; checkpoint <= checkpoints; ++checkpoint) {
    train_until(task.batches * checkpoint / checkpoints, trainer, record, progress);
    now = {record.batches, record.seconds, mean_over_ranks(record.bytes_sent, world) / 1e6,
           trainer.perplexity(task.corpus.held_out)};
    at_checkpoint(now);
  }
  auto const batches = static_cast<double>(now.batches);
  auto const words = static_cast<double>(options.streams * options.steps * world.size()) * batches;
  Outcome const outcome{policy, words / now.seconds, now.megabytes_sent / batches, now.perplexity};
  progress.update(task.batches, std::to_string(static_cast<int>(outcome.words_per_second)) + " words/s");
  trainer.session().finish();
  return outcome;
}

}  // namespace

Outcome train(px::AnyCommunicator& world, Task const& task, std::string_view policy, std::string const& title, int checkpoints,
              AtCheckpoint const& at_checkpoint) {
  auto const under = [&]<class Preset>(Preset) {
    return train_under<Preset>(world, task, policy, title, checkpoints, at_checkpoint);
  };
  if (policy == "hybrid") return under(px::presets::hybrid{});
  if (policy == "all_reduce") return under(px::presets::all_reduce{});
  if (policy == "parameter_server") return under(px::presets::parameter_server{});
  if (policy == "naive_parameter_server") return under(baseline::naive_parameter_server{});
  if (policy == "all_gather") return under(px::presets::all_gather{});
  if (policy == "auto") return under(px::Auto{});
  throw std::invalid_argument{"no such policy: " + std::string{policy}};
}

}  // namespace lm
