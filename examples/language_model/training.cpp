// The trainings: the model's trainer is compiled here, once for each policy.
#include "training.hpp"

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../benchmarks/baseline/tf1_ps.hpp"
#include "../progress.hpp"
#include "apart.hpp"
#include "trainer.hpp"

namespace lm {

namespace {

using Clock = std::chrono::steady_clock;

// Called after each step; whether the training stops there.
using AfterStep = std::function<bool()>;

// False if it was stopped.
template <class Trainer>
bool train_until(std::int64_t batches, Trainer& trainer, Record& record, example::Progress& progress, AfterStep const& stops) {
  auto& session = trainer.session();
  while (session.steps() < batches) {
    auto const sent_before = session.traffic().payload_sent();
    auto const start = Clock::now();
    double const loss = trainer.step();
    record.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    record.bytes_sent += static_cast<double>(session.traffic().payload_sent() - sent_before);
    record.loss = record.batches == 0 ? loss : 0.98 * record.loss + 0.02 * loss;
    ++record.batches;
    progress.update(session.steps() - 1, "loss " + std::to_string(record.loss).substr(0, 5));
    if (stops && stops()) return false;
  }
  return true;
}

// Notes what the ranks have sent of this many bytes each. Collective.
void note_sent(Outcome& outcome, double bytes, px::AnyCommunicator& world) {
  auto const all = px::allgather(world, bytes / 1e6);
  outcome.megabytes_sent = std::accumulate(all.begin(), all.end(), 0.0) / world.size();
  outcome.most_megabytes_sent = *std::max_element(all.begin(), all.end());
}

// Runs a training with checkpoints: goes on from the newest one, if it is asked to, saves now and then, at the end, and when a signal
// asks it to stop. Collective.
template <class Trainer>
void run_saved(Trainer& trainer, Task const& task, Record& record, Outcome& outcome, MakeSaving make_saving,
               std::function<void(AfterStep const&)> const& run) {
  Options const& options = task.options;
  std::vector<float> memory;
  trainer.recall(memory);
  auto const saving = make_saving(trainer.parts(memory, record), options);
  if (options.resume) {
    auto const from = saving->resume();
    trainer.remember(memory);
    if (trainer.session().rank() == 0) {
      if (!from) std::printf("there is no checkpoint in %s: from the beginning\n", options.save.c_str());
      else
        std::printf("goes on after %lld batches%s\n", static_cast<long long>(from->batches),
                    from->elsewhere ? ", with another number of ranks: the model has forgotten the words before" : "");
      std::fflush(stdout);
    }
  }
  run([&] {
    trainer.recall(memory);
    bool stops = false;
    if (trainer.session().steps() == task.batches) saving->save();
    else stops = saving->step();
    outcome.saved = saving->last();
    return stops;
  });
}

// Collective.
template <class Preset>
Outcome train_under(px::AnyCommunicator& world, Task const& task, std::string_view policy, std::string title, int checkpoints,
                    AtCheckpoint const& at_checkpoint, MakeSaving make_saving) {
  Options const& options = task.options;
  Trainer<Preset, float> trainer{world, options, task.corpus.train};
  auto& session = trainer.session();
  (title += title.empty() ? "" : ": ") += policy;
  title.resize(std::max<std::size_t>(title.size(), 30), ' ');
  example::Progress progress{title, task.batches, world.rank() == 0};
  Record record;
  Outcome outcome;
  outcome.policy = policy;
  checkpoints = std::max(checkpoints, 1);
  auto const run = [&](AfterStep const& stops) {
    std::int64_t const begun = session.steps();
    for (int checkpoint = 1; checkpoint <= checkpoints && !outcome.stopped; ++checkpoint) {
      std::int64_t const until = task.batches * checkpoint / checkpoints;
      if (until < begun && checkpoint < checkpoints) continue;  // it was looked at before
      outcome.stopped = !train_until(until, trainer, record, progress, stops);
      outcome.batches = session.steps();
      if (outcome.stopped) break;
      outcome.perplexity = trainer.perplexity(task.corpus.held_out);
      note_sent(outcome, record.bytes_sent, world);
      progress.clear();
      at_checkpoint({outcome.batches, record.seconds, outcome.megabytes_sent, outcome.most_megabytes_sent, outcome.perplexity});
    }
  };
  if constexpr (std::same_as<Preset, px::presets::hybrid>) {  // what it takes to save is compiled for one policy alone
    if (make_saving && !options.save.empty()) run_saved(trainer, task, record, outcome, make_saving, run);
    else run({});
  } else {
    run({});
  }
  auto const batches = static_cast<double>(std::max<std::int64_t>(record.batches, 1));
  auto const words = static_cast<double>(options.streams * options.steps * world.size() * record.batches);
  outcome.words_per_second = record.seconds > 0 ? words / record.seconds : 0;
  outcome.megabytes_sent /= batches, outcome.most_megabytes_sent /= batches;
  if (!outcome.stopped) progress.update(task.batches, std::to_string(static_cast<int>(outcome.words_per_second)) + " words/s");
  session.finish();
  return outcome;
}

// Collective. Ranks that serve train on nothing.
Outcome train_apart(px::AnyCommunicator& world, Task const& task, std::string_view policy, std::string title, int checkpoints,
                    AtCheckpoint const& at_checkpoint) {
  Options const& options = task.options;
  ApartTrainer<float> trainer{world, options, task.corpus.train};
  (title += title.empty() ? "" : ": ") += policy;
  title.resize(std::max<std::size_t>(title.size(), 30), ' ');
  example::Progress progress{title, task.batches, world.rank() == options.servers};
  double seconds = 0, smoothed = 0;
  Outcome outcome;
  outcome.policy = policy;
  checkpoints = std::max(checkpoints, 1);
  for (int checkpoint = 1; checkpoint <= checkpoints; ++checkpoint) {
    std::int64_t const until = task.batches * checkpoint / checkpoints;
    auto const start = Clock::now();
    trainer.train(until - outcome.batches, [&](std::int64_t clock, double loss) {
      smoothed = clock == 1 ? loss : 0.98 * smoothed + 0.02 * loss;
      progress.update(clock - 1, "loss " + std::to_string(smoothed).substr(0, 5));
    });
    px::barrier(world);
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    outcome.batches = until;
    note_sent(outcome, static_cast<double>(trainer.session().traffic().payload_sent()), world);
    outcome.perplexity = trainer.perplexity(task.corpus.held_out);
    progress.clear();
    at_checkpoint({outcome.batches, seconds, outcome.megabytes_sent, outcome.most_megabytes_sent, outcome.perplexity});
  }
  auto const words = static_cast<double>(options.streams * options.steps * (world.size() - options.servers) * task.batches);
  outcome.words_per_second = seconds > 0 ? words / seconds : 0;
  auto const batches = static_cast<double>(std::max<std::int64_t>(task.batches, 1));
  outcome.megabytes_sent /= batches, outcome.most_megabytes_sent /= batches;
  progress.update(task.batches, std::to_string(static_cast<int>(outcome.words_per_second)) + " words/s");
  trainer.session().finish();
  return outcome;
}

}  // namespace

Outcome train(px::AnyCommunicator& world, Task const& task, std::string_view policy, std::string const& title, int checkpoints,
              AtCheckpoint const& at_checkpoint, MakeSaving make_saving) {
  auto const under = [&]<class Preset>(Preset) {
    return train_under<Preset>(world, task, policy, title, checkpoints, at_checkpoint, make_saving);
  };
  if (policy == "hybrid") return under(px::presets::hybrid{});
  if (policy == "all_reduce") return under(px::presets::all_reduce{});
  if (policy == "parameter_server") return under(px::presets::parameter_server{});
  if (policy == "tf1_parameter_server") return under(baseline::tf1_parameter_server{});
  if (policy == "all_gather") return under(px::presets::all_gather{});
  if (policy == "auto") return under(px::Auto{});
  if (policy == "async") return train_apart(world, task, policy, title, checkpoints, at_checkpoint);
  throw std::invalid_argument{"no such policy: " + std::string{policy}};
}

}  // namespace lm
