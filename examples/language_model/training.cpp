// The trainings: the model's trainer is compiled here, once for each policy.
#include "training.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>

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

void print_checkpoint(Record const& record, double perplexity, Task const& task) {
  std::printf("  %7lld batches, %5.1f s: held-out perplexity %6.1f  (unigram %.1f, bigram %.1f)\n",
              static_cast<long long>(record.batches), record.seconds, perplexity, task.unigram, task.bigram);
  std::fflush(stdout);
}

double mean_over_ranks(double value, px::AnyCommunicator& world) {
  px::allreduce(world, std::span{&value, 1});
  return value / world.size();
}

// Collective.
template <class Preset>
Outcome train_under(px::AnyCommunicator& world, Task const& task, std::string_view policy, bool report) {
  Options const& options = task.options;
  Trainer<Preset, float> trainer{world, options, task.corpus.train};
  std::string title{policy};
  title.resize(18, ' ');
  example::Progress progress{title, task.batches, world.rank() == 0};
  Outcome outcome{policy};
  Record record;
  int const checkpoints = report ? std::max(options.checkpoints, 1) : 1;
  for (int checkpoint = 1; checkpoint <= checkpoints; ++checkpoint) {
    train_until(task.batches * checkpoint / checkpoints, trainer, record, progress);
    outcome.perplexity = trainer.perplexity(task.corpus.held_out);
    if (report && world.rank() == 0) print_checkpoint(record, outcome.perplexity, task);
  }
  auto const words_per_batch = static_cast<double>(options.streams * options.steps * world.size());
  auto const batches = static_cast<double>(record.batches);
  outcome.words_per_second = words_per_batch * batches / record.seconds;
  outcome.megabytes_sent = mean_over_ranks(record.bytes_sent, world) / batches / 1e6;
  progress.update(task.batches, std::to_string(static_cast<int>(outcome.words_per_second)) + " words/s");
  trainer.session().finish();
  return outcome;
}

}  // namespace

Outcome train(px::AnyCommunicator& world, Task const& task, std::string_view policy, bool report) {
  if (policy == "hybrid") return train_under<px::presets::hybrid>(world, task, policy, report);
  if (policy == "all_reduce") return train_under<px::presets::all_reduce>(world, task, policy, report);
  if (policy == "parameter_server") return train_under<px::presets::parameter_server>(world, task, policy, report);
  if (policy == "all_gather") return train_under<px::presets::all_gather>(world, task, policy, report);
  throw std::invalid_argument{"no such policy: " + std::string{policy}};
}

}  // namespace lm
