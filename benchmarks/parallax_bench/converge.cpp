// The trainings of the examples, watched: their trainers are compiled from examples/.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "fastest.hpp"
#include "language_model/default_text.hpp"
#include "language_model/training.hpp"
#include "mlp/training.hpp"

namespace bench {

namespace {

// A look at a training: what a rank has sent, on average and the busiest, and how good the model is.
struct Look {
  double step = 0, seconds = 0, megabytes_sent = 0, most_megabytes_sent = 0, quality = 0;
};
struct Watched {
  std::string policy;
  double tolerance;  // how far its quality may be from the first policy's, as a share of that
  std::vector<Look> looks = {};
  bool learnt = true;
};

// All policies but TensorFlow 1's sum what a rank has of a row and then what the ranks have, in the order of ranks: their bits
// are the same. The latter sums every occurrence where it arrives; what roundings make of another order must stay below a
// thousandth of the perplexity.
constexpr double of_another_order = 0.001;

using Body = std::function<void(px::AnyCommunicator&, std::function<void(Look const&)> const&)>;

class Convergence {
 public:
  Convergence(Options const& options, Ranks& ranks, Report& report, Progress& progress)
      : options_{options}, ranks_{ranks}, report_{report}, progress_{progress} {}

  void run() {
    language_model();
    classifier();
  }

 private:
  void language_model() {
    lm::Options of_model;
    of_model.checkpoints = 20;
    lm::Text text = [] {
      try {
        return lm::default_text();
      } catch (std::runtime_error const&) {
        throw Refusal{"converge: the text to train on is not installed: apt-get install bible-kjv"};
      }
    }();
    if (options_.smoke) lm::make_tiny(text, of_model);
    lm::Task const task = lm::make_task(of_model, text, ranks_.size());
    std::vector<Watched> trainings;
    for (auto const policy : lm::policies) {
      if (policy == "async") continue;
      trainings.push_back({std::string{policy}, policy == "tf1_parameter_server" ? of_another_order : 0});
      watch(trainings.back(), [&](px::AnyCommunicator& comm, auto const& look) {
        lm::train(comm, task, policy, "", task.options.checkpoints, [&](lm::Checkpoint const& now) {
          look({real(now.batches), now.seconds, now.megabytes_sent, now.most_megabytes_sent, now.perplexity});
        });
      });
    }
    for (auto& training : trainings) training.learnt = options_.smoke || training.looks.back().quality < task.unigram;
    show("language model: " + std::to_string(task.corpus.train.size()) + " words of text, " +
             std::to_string(task.corpus.held_out.size()) + " held out, a vocabulary of " +
             std::to_string(task.corpus.vocabulary.size()) + "; " + std::to_string(ranks_.size()) + " ranks, " +
             std::to_string(task.options.streams) + " x " + std::to_string(task.options.steps) +
             " words of a rank in a step; held-out perplexity of a unigram model " + fixed(task.unigram, 1) +
             ", of a bigram model " + fixed(task.bigram, 1),
         "language_model", "step", "held-out perplexity", true, trainings);
  }

  void classifier() {
    auto const digits = mlp::read_digits<float>();
    int const epochs = options_.smoke ? 3 : 30;
    std::vector<Watched> trainings{{"all_reduce", 0}, {"parameter_server", 0}};
    auto const body = [&]<class Policy>(Policy) -> Body {
      return [&](px::AnyCommunicator& comm, auto const& look) {
        mlp::train<Policy>(comm, digits, epochs, [&](mlp::Epoch const& now) {
          auto const sent = px::allgather(comm, now.megabytes_sent);
          double const mean = std::accumulate(sent.begin(), sent.end(), 0.0) / comm.size();
          look({real(now.number), now.seconds, mean, *std::max_element(sent.begin(), sent.end()), now.accuracy});
        });
      };
    };
    watch(trainings[0], body(px::AllReduce{}));
    watch(trainings[1], body(px::PsShard{}));
    for (auto& training : trainings) training.learnt = options_.smoke || training.looks.back().quality > 0.9;
    show("dense classifier: " + std::to_string(digits.train.labels.size()) + " images of digits, " +
             std::to_string(digits.test.labels.size()) + " held out; " + std::to_string(ranks_.size()) + " ranks",
         "classifier", "epoch", "held-out accuracy", false, trainings);
  }

  void watch(Watched& training, Body const& body) {
    auto const results = ranks_.run([&](World const& world) {
      Ranks::Numbers numbers;
      body(world.comm, [&](Look const& look) {
        numbers.insert(numbers.end(), {look.step, look.seconds, look.megabytes_sent, look.most_megabytes_sent, look.quality});
      });
      return numbers;
    });
    Ranks::Numbers const& seen = results[0];
    for (std::size_t i = 0; i < seen.size(); i += 5)
      training.looks.push_back({seen[i], seen[i + 1], seen[i + 2], seen[i + 3], seen[i + 4]});
  }

  // Charts, a line for each training and a record for each look; what is off by more than it may be is wrong.
  void show(std::string const& title, std::string const& model, std::string const& step, std::string const& quality,
            bool logarithmic, std::vector<Watched> const& trainings) {
    Watched const& first = trainings[0];
    Table table{title,
                {{"policy", 22, true},
                 {step + "s", 6},
                 {"seconds", 8},
                 {"MB sent by a rank", 9},
                 {"the busiest", 9},
                 {quality, 16},
                 {"most off " + first.policy, 9},
                 {"may be", 6},
                 {"#wrong", 6}},
                ranks_.prints(),
                progress_};
    std::vector<Line> by_step, by_time, by_bytes;
    std::vector<Result> results;
    for (Watched const& training : trainings) {
      for (auto* const lines : {&by_step, &by_time, &by_bytes}) lines->push_back({training.policy, {}});
      double most = 0;
      std::int64_t wrong = !training.learnt;
      for (std::size_t i = 0; i < training.looks.size(); ++i) {
        Look const& look = training.looks[i];
        Look const& other = first.looks[i];
        double const off = std::abs(look.quality / other.quality - 1);
        bool const is_wrong = look.step != other.step || !(off <= training.tolerance);
        if (!(off <= most)) most = off;  // also what is no number
        wrong += is_wrong;
        by_step.back().points.emplace_back(look.step, look.quality);
        by_time.back().points.emplace_back(look.seconds, look.quality);
        by_bytes.back().points.emplace_back(look.megabytes_sent, look.quality);
        report_.add({{"command", "converge"},
                     {"model", model},
                     {"policy", training.policy},
                     {step, static_cast<std::int64_t>(look.step)},
                     {"seconds", look.seconds},
                     {"sent_MB_of_rank", look.megabytes_sent},
                     {"sent_MB_of_busiest_rank", look.most_megabytes_sent},
                     {quality == "held-out perplexity" ? "perplexity" : "accuracy", look.quality},
                     {"wrong", std::int64_t{is_wrong}}});
      }
      results.push_back({training.policy, most, training.tolerance});
      Look const& last = training.looks.back();
      table.row({training.policy, shown(last.step), fixed(last.seconds, 2), fixed(last.megabytes_sent, 3),
                 fixed(last.most_megabytes_sent, 3), fixed(last.quality, 10), shown(most), shown(training.tolerance),
                 std::to_string(wrong)});
      report_.wrong(wrong);
    }
    Look const& last = first.looks.back();
    report_.found(agreement(results, "a " + quality + " of " + said(last.quality) + " after " + said(last.step) + ' ' + step +
                                         (last.step > 1 ? "s" : "")));
    auto const chart = [&](std::string const& by, std::string const& x, int base, std::vector<Line> const& lines) {
      return line_chart(model + ": " + by, x, quality, base, logarithmic, lines);
    };
    report_.section({chart("by " + step + ", where policies lie on each other", step, 0, by_step),
                     chart("by time", "seconds of training", 0, by_time),
                     chart("by bytes", "MB (10^6 bytes) that a rank has sent", 10, by_bytes)},
                    table);
  }

  Options const& options_;
  Ranks& ranks_;
  Report& report_;
  Progress& progress_;
};

}  // namespace

void run_converge(Options const& options, Ranks& ranks, Report& report, Progress& progress) {
  Convergence{options, ranks, report, progress}.run();
}

namespace {

[[maybe_unused]] bool const here =
    bring("converge", [](Run const& run) { run_converge(run.options, run.ranks, run.report, run.progress); });

}  // namespace

}  // namespace bench
