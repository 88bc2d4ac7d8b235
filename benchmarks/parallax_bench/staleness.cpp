// What staleness costs in what is learnt: the language model of examples/ after equally many batches, trained in rounds and apart.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands.hpp"
#include "language_model/default_text.hpp"
#include "language_model/training.hpp"

namespace bench {

namespace {

// A way to train, and the rate at which its optimizers do. Where each push is an update of its own there are as many updates as
// workers have batches, and not one for all of them: so its rate is another one.
struct Training {
  std::string name;
  double rate;
  bool rounds = false;
  std::int64_t staleness = -1;  // -1: any
  bool by_staleness = false;
  double of_rounds = 0;  // the goal: at most this multiple of rounds' perplexity, where there is one
};
std::vector<Training> trainings() {
  return {{.name = "Session", .rate = 0.3, .rounds = true},
          {.name = "Ssp{3}", .rate = 0.17, .staleness = 3, .of_rounds = 1.03},
          {.name = "Asp", .rate = 0.17},
          {.name = "Asp, by_staleness", .rate = 0.17, .by_staleness = true},
          {.name = "Asp, by_staleness", .rate = 0.1, .by_staleness = true}};
}

class Staleness {
 public:
  Staleness(Options const& options, Report& report, Progress& progress, bool prints)
      : options_{options}, report_{report}, progress_{progress}, prints_{prints} {}

  void run() {
    int const workers = options_.ranks ? options_.ranks : 4;
    lm::Text const text = [] {
      try {
        return lm::default_text();
      } catch (std::runtime_error const&) {
        throw Refusal{"staleness: the text to train on is not installed: apt-get install bible-kjv"};
      }
    }();
    auto const all = trainings();
    std::vector<std::vector<double>> found(all.size());
    double unigram = 0;
    progress_.begin("staleness", seeds * std::ssize(all));
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
      for (std::size_t i = 0; i < all.size(); ++i) {
        lm::Options how;
        how.checkpoints = 1;
        how.seed = seed;
        how.learning_rate = all[i].rate;
        how.staleness = all[i].staleness;
        how.by_staleness = all[i].by_staleness;
        how.servers = all[i].rounds ? 0 : 1;
        lm::Text own = text;
        if (options_.smoke) lm::make_tiny(own, how);
        lm::Task const task = lm::make_task(how, own, workers);
        unigram = task.unigram;
        found[i].push_back(perplexity(task, all[i].rounds ? "hybrid" : "async", workers + how.servers));
        progress_.advance();
      }
    show(workers, unigram, all, found);
  }

 private:
  static double perplexity(lm::Task const& task, std::string_view policy, int ranks) {
    double last = 0;
    px::run_threads(ranks, [&](px::ThreadCommunicator& own) {
      px::AnyCommunicator comm{std::ref(own)};
      auto const outcome = lm::train(comm, task, policy, "", 1, [](lm::Checkpoint const&) {});
      if (own.rank() == 0) last = outcome.perplexity;
    });
    return last;
  }

  void show(int workers, double unigram, std::vector<Training> const& all, std::vector<std::vector<double>> const& found) {
    Table table{"language model: held-out perplexity after equally many batches; " + std::to_string(workers) +
                    " workers, and a server where they train apart; of a unigram model " + fixed(unigram, 1),
                {{"session", 18, true},
                 {"rate", 5},
                 {"seed 1", 8},
                 {"seed 2", 8},
                 {"seed 3", 8},
                 {"mean", 8},
                 {"x rounds", 8},
                 {"goal", 12, true},
                 {"#wrong", 6}},
                prints_,
                progress_};
    auto const mean = [](std::vector<double> const& of) { return (of[0] + of[1] + of[2]) / 3; };
    std::vector<Bar> bars;
    std::string most;
    for (std::size_t i = 0; i < all.size(); ++i) {
      double const share = mean(found[i]) / mean(found[0]), most_wanted = all[i].of_rounds;
      std::int64_t wrong = 0;
      for (double const one : found[i]) wrong += !(one < unigram) && !options_.smoke;
      bool const reached = options_.smoke || most_wanted == 0 || share <= most_wanted;
      std::string const goal = most_wanted > 0 ? "<= " + shown(most_wanted) + (reached ? "" : " MISSED") : "";
      table.row({all[i].name, shown(all[i].rate), fixed(found[i][0], 2), fixed(found[i][1], 2), fixed(found[i][2], 2),
                 fixed(mean(found[i]), 2), fixed(share, 3), goal, std::to_string(wrong)});
      bars.push_back({all[i].name + " at " + shown(all[i].rate), mean(found[i]),
                      *std::min_element(found[i].begin(), found[i].end()), *std::max_element(found[i].begin(), found[i].end()),
                      false});
      if (most_wanted > 0) most = all[i].name + "'s perplexity is " + fixed(share, 3) + " times that of rounds";
      for (std::size_t seed = 0; seed < found[i].size(); ++seed)
        report_.add({{"command", "staleness"},
                     {"session", all[i].name},
                     {"rate", all[i].rate},
                     {"seed", static_cast<std::int64_t>(seed + 1)},
                     {"perplexity", found[i][seed]},
                     {"of_rounds", share},
                     {"goal", goal},
                     {"wrong", wrong}});
      report_.wrong(wrong);
      missed_ += !reached;
    }
    report_.found("After equally many batches " + most + ", on average over three seeds" +
                  (missed_ ? ", which misses its goal." : "."));
    report_.section({bar_chart("Held-out perplexity; mean, least and most of three seeds", "perplexity", bars)}, table);
  }

  static constexpr std::int64_t seeds = 3;

  Options const& options_;
  Report& report_;
  Progress& progress_;
  bool prints_;
  int missed_ = 0;
};

[[maybe_unused]] bool const here = bring("staleness", [](Run const& run) {
  Staleness{run.options, run.report, run.progress, run.prints}.run();
});

}  // namespace

}  // namespace bench
