// Trains a language model on real text, on threads or on other ranks that its command line asks for, and compares the policies on the same training.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../ranks.hpp"
#include "default_text.hpp"
#include "training.hpp"

namespace {

using namespace lm;

void print_task(Task const& task, int ranks) {
  auto const& [options, corpus, batches, unigram, bigram] = task;
  std::printf("%zu words of text, %zu held out; vocabulary %lld; %d ranks of %td x %td words a batch; %lld batches\n",
              corpus.train.size(), corpus.held_out.size(), static_cast<long long>(corpus.vocabulary.size()), ranks,
              options.streams, options.steps, static_cast<long long>(batches));
  std::fflush(stdout);
}

void print_checkpoint(Checkpoint const& now, Task const& task) {
  std::printf("  %7lld batches, %5.1f s: held-out perplexity %6.1f  (unigram %.1f, bigram %.1f)\n",
              static_cast<long long>(now.batches), now.seconds, now.perplexity, task.unigram, task.bigram);
  std::fflush(stdout);
}

void print_table(std::vector<Outcome> const& outcomes) {
  std::printf(
      "\n| policy | words/s | MB sent per step and rank | by the busiest rank | held-out perplexity |\n"
      "|---|---:|---:|---:|---:|\n");
  for (Outcome const& o : outcomes)
    std::printf("| %s | %.0f | %.3f | %.3f | %.1f |\n", std::string{o.policy}.c_str(), o.words_per_second, o.megabytes_sent,
                o.most_megabytes_sent, o.perplexity);
}

// To the last bit: two trainings that are the same say the same.
void print_saved(Outcome const& outcome) {
  auto const batches = static_cast<long long>(outcome.batches);
  if (!outcome.saved.empty()) std::printf("saved after %lld batches: %s\n", batches, outcome.saved.c_str());
  if (outcome.stopped) std::printf("stopped by a signal: --resume goes on from there\n");
  else std::printf("held-out perplexity, to the last bit: %.17g\n", outcome.perplexity);
  std::fflush(stdout);
}

// A new training does not mix its checkpoints with those of another.
void check_folder(Options const& options) {
  if (options.save.empty() || options.resume) return;
  DIR* const folder = ::opendir(options.save.c_str());
  if (!folder) return;  // it is made
  bool empty = true;
  while (dirent const* const entry = ::readdir(folder)) {
    std::string_view const name = entry->d_name;
    empty = empty && (name == "." || name == "..");
  }
  ::closedir(folder);
  if (!empty)
    throw std::invalid_argument{options.save + " is not empty: --resume goes on from it, a new training wants another folder"};
}

std::vector<std::string_view> chosen_policies(std::string_view choice) {
  if (choice == "compare") return {compared.begin(), compared.end()};
  return {choice};
}

// All trainings that were asked for, by one rank. Collective; exit status.
int run(px::AnyCommunicator& world, Task const& task) {
  bool const talks = world.rank() == 0;
  if (talks) print_task(task, world.size());
  std::vector<Outcome> outcomes;
  auto const chosen = chosen_policies(task.options.policy);
  for (std::string_view const policy : chosen) {
    bool const first = outcomes.empty();
    std::string const title = std::to_string(outcomes.size() + 1) + " of " + std::to_string(chosen.size());
    auto const show = [&](Checkpoint const& now) {
      if (first && talks) print_checkpoint(now, task);
    };
    outcomes.push_back(train(world, task, policy, title, first ? task.options.checkpoints : 1, show, make_saving));
  }
  if (outcomes.back().stopped) {
    if (talks) print_saved(outcomes.back());
    return 0;
  }
  if (talks) print_table(outcomes);
  if (talks && !task.options.save.empty()) print_saved(outcomes.back());
  auto const learnt = [&](Outcome const& o) { return o.perplexity < task.unigram; };
  if (task.options.smoke || std::ranges::all_of(outcomes, learnt)) return 0;
  if (talks) std::fputs("the model did not get below the unigram's perplexity\n", stderr);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    options = parse(px::own_arguments(argc, argv));
    check_folder(options);
  } catch (std::invalid_argument const& error) {
    std::fprintf(stderr, "language_model: %s\n", error.what());
    return 2;
  }
  try {
    if (options.help) return std::fputs(help(example::columns_of(STDOUT_FILENO)).c_str(), stdout) < 0;
    Text text = options.texts.empty() ? default_text() : read_files(options.texts);
    if (options.smoke) make_tiny(text, options);
    auto const body = [&](px::AnyCommunicator& world) {
      if (options.servers >= world.size()) throw std::invalid_argument{"--servers leaves no rank that trains"};
      return run(world, make_task(options, text, world.size() - options.servers));
    };
    return px::run(argc, argv, body, {.threads = options.ranks});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "language_model: %s\n", error.what());
    return 1;
  }
}
