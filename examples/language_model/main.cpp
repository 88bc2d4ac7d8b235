// Trains a language model on real text, on thread ranks or under mpiexec, and compares the policies on the same training.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <parallax/comm/thread.hpp>
#ifdef PARALLAX_HAS_MPI
#include <parallax/comm/mpi.hpp>
#endif

#include "../progress.hpp"
#include "default_text.hpp"
#include "ngram.hpp"
#include "trainer.hpp"

namespace {

using namespace lm;

// What one training showed, on every rank alike but for nothing: sums and means are over ranks.
struct Outcome {
  std::string policy;
  double words_per_second = 0;
  double megabytes_sent = 0;  // per step and rank
  std::vector<double> perplexities;  // held out, at the checkpoints
};

struct Task {
  Options options;
  Corpus corpus;
  double unigram = 0, bigram = 0;  // held-out perplexities
  std::int64_t batches = 0;
};

Task make_task(Options options, Text const& text, int ranks) {
  if (options.smoke) {
    options.shape = {.vocabulary = 300, .embedding = 8, .cell = 12, .projection = 8, .samples = 32};
    options.streams = 4;
    options.batches = 30;
    options.checkpoints = 3;
  }
  Task task{options, make_corpus(text, static_cast<std::size_t>(options.shape.vocabulary)), 0, 0, 0};
  Corpus& corpus = task.corpus;
  if (options.smoke) {
    corpus.train.resize(std::min<std::size_t>(corpus.train.size(), 20'000));
    corpus.held_out.resize(std::min<std::size_t>(corpus.held_out.size(), 2'000));
  }
  task.options.shape.vocabulary = corpus.vocabulary.size();
  task.options.shape.samples = std::min(options.shape.samples, corpus.vocabulary.size() / 2);
  Streams const held_out{corpus.held_out, options.streams, 0, ranks}, train{corpus.train, options.streams, 0, ranks};
  auto const covered = std::span{corpus.held_out}.first(held_out.covered());
  task.unigram = perplexity(Unigram{corpus.train, corpus.vocabulary.size()}, covered);
  task.bigram = perplexity(Bigram{corpus.train, corpus.vocabulary.size()}, covered);
  task.batches = options.batches > 0 ? options.batches : std::max<std::int64_t>(train.length() / options.steps, 1);
  return task;
}

// One training under one policy. Collective.
template <class Preset, px::Communicator World>
Outcome train(World& world, Task const& task, std::string name, bool report) {
  Options const& options = task.options;
  Trainer<Preset, float, World> trainer{world, options, task.corpus.train};
  example::Progress progress{name + std::string(18 - std::min<std::size_t>(name.size(), 18), ' '), task.batches, world.rank() == 0};
  auto const words_per_batch = static_cast<double>(options.streams * options.steps * world.size());
  Outcome outcome{std::move(name), 0, 0, {}};
  double seconds = 0, sent = 0, loss = 0;
  std::int64_t done = 0;
  for (int checkpoint = 1; checkpoint <= options.checkpoints; ++checkpoint) {
    std::int64_t const until = task.batches * checkpoint / options.checkpoints;
    auto const sent_before = trainer.session().traffic().payload_sent();
    auto const start = std::chrono::steady_clock::now();
    for (; done < until; ++done) {
      double const latest = trainer.step();
      loss = done == 0 ? latest : 0.98 * loss + 0.02 * latest;
      progress.update(done, "sampled loss " + std::to_string(loss).substr(0, 5));
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    sent += static_cast<double>(trainer.session().traffic().payload_sent() - sent_before);
    outcome.perplexities.push_back(trainer.perplexity(task.corpus.held_out));
    outcome.words_per_second = words_per_batch * static_cast<double>(done) / seconds;
    if (report && world.rank() == 0) {
      std::printf("  %7lld batches, %5.1f s: held-out perplexity %6.1f  (unigram %.1f, bigram %.1f)\n",
                  static_cast<long long>(done), seconds, outcome.perplexities.back(), task.unigram, task.bigram);
      std::fflush(stdout);
    }
  }
  progress.update(task.batches, std::to_string(static_cast<int>(outcome.words_per_second)) + " words/s");
  std::vector<double> total{sent};
  px::allreduce(world, std::span{total});
  outcome.megabytes_sent = total[0] / static_cast<double>(world.size()) / static_cast<double>(std::max<std::int64_t>(done, 1)) / 1e6;
  trainer.session().finish();
  return outcome;
}

void print(std::vector<Outcome> const& outcomes) {
  std::printf("\n| policy | words/s | MB sent per step and rank | held-out perplexity |\n|---|---:|---:|---:|\n");
  for (Outcome const& o : outcomes)
    std::printf("| %s | %.0f | %.3f | %.1f |\n", o.policy.c_str(), o.words_per_second, o.megabytes_sent, o.perplexities.back());
}

// All trainings that were asked for, by one rank. Collective; exit status.
template <px::Communicator World>
int run(World& world, Task const& task) {
  Options const& options = task.options;
  if (world.rank() == 0) {
    std::printf("%zu words of text, %zu held out; vocabulary %lld; %d ranks of %td x %td words a batch; %lld batches\n",
                task.corpus.train.size(), task.corpus.held_out.size(), static_cast<long long>(task.corpus.vocabulary.size()),
                world.size(), options.streams, options.steps, static_cast<long long>(task.batches));
    std::fflush(stdout);
  }
  std::vector<Outcome> outcomes;
  auto const consider = [&]<class Preset>(std::string const& name, Preset) {
    if (options.policy != "compare" && options.policy != name) return;
    outcomes.push_back(train<Preset>(world, task, name, outcomes.empty()));
  };
  consider("hybrid", px::presets::hybrid{});
  consider("all_reduce", px::presets::all_reduce{});
  consider("parameter_server", px::presets::parameter_server{});
  consider("all_gather", px::presets::all_gather{});
  if (outcomes.empty()) throw std::invalid_argument{"no such policy: " + options.policy};
  if (world.rank() == 0) print(outcomes);
  bool const learnt = std::ranges::all_of(outcomes, [&](Outcome const& o) { return o.perplexities.back() < task.unigram; });
  if (!learnt && !options.smoke) {
    if (world.rank() == 0) std::fputs("the model did not get below the unigram's perplexity\n", stderr);
    return 1;
  }
  return 0;
}

#ifdef PARALLAX_HAS_MPI
bool under_mpiexec() {
  return std::getenv("PMI_RANK") || std::getenv("PMIX_RANK") || std::getenv("OMPI_COMM_WORLD_RANK");
}
#endif

}  // namespace

int main(int argc, char** argv) {
  try {
    Options const options = parse({argv + 1, argv + argc});
    if (options.help) return std::fputs(std::string{usage}.c_str(), stdout) < 0;
    Text const text = options.texts.empty() ? default_text() : read_files(options.texts);
#ifdef PARALLAX_HAS_MPI
    if (under_mpiexec()) {
      px::MpiEnvironment mpi{argc, argv};
      px::MpiCommunicator world;
      return run(world, make_task(options, text, world.size()));
    }
#endif
    Task const task = make_task(options, text, options.ranks);
    int status = 0;
    px::run_threads(options.ranks, [&](px::ThreadCommunicator& world) {
      int const own = run(world, task);
      if (world.rank() == 0) status = own;
    });
    return status;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "language_model: %s\n", error.what());
    return 1;
  }
}
