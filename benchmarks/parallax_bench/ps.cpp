// parallax-bench ps: pull and push of one sparse table under each policy.
#include <algorithm>
#include <string>
#include <vector>

#include "commands.hpp"
#include "measured.hpp"
#include "report.hpp"

namespace bench {

template <class T>
void run_ps(Options const& options, Ranks& ranks, Report& report, Progress& progress, Ids const* recorded) {
  std::int64_t const rows = options.rows ? options.rows : options.smoke ? 1'000 : 800'000;
  std::int64_t const width = options.width ? options.width : options.smoke ? 8 : 128;
  int const steps = options.iterations ? options.iterations : options.smoke ? 3 : 30;
  auto policies = options.policies;
  if (policies.empty()) policies = {"parameter_server", "naive_parameter_server", "all_gather", "all_reduce"};
  double const alpha = options.alpha > 0 ? options.alpha : options.smoke ? 0.03 : 0.0032;
  Options unscaled = options;
  unscaled.scale = 1;
  Workload const work =
      make_workload(unscaled, {}, {{"table", rows, width, alpha}}, ranks.size(), std::min(steps, 4), alpha, false, recorded);
  double touched = 0, drawn = 0;
  for (auto const& of_rank : work.streams[0].ids)
    for (auto const& batch : of_rank) touched += real(sorted_distinct(batch).size()), drawn += real(batch.size());
  touched /= real(work.ranks * work.batches), drawn /= real(work.ranks * work.batches);
  double const bytes = touched * real(width) * sizeof(T), n = ranks.size(), bus = 2 * (n - 1) / n;
  std::string const type = sizeof(T) == 4 ? "float" : "double";
  std::string const partition{partition_names[static_cast<std::size_t>(options.partition)]};
  Table table{"pull and push of a table of " + std::to_string(rows) + " x " + std::to_string(width) + ", " +
                  std::to_string(ranks.size()) + " ranks, each " + fixed(drawn, 0) + " ids of " + fixed(touched, 0) +
                  " rows, dealt by " + partition,
              {{"size(B)", 10},
               {"count", 9},
               {"type", 6, true},
               {"policy", 22, true},
               {"time(us)", 10},
               {"p10", 9},
               {"p90", 9},
               {"algbw(GB/s)", 8},
               {"busbw(GB/s)", 8},
               {"sent(B/rank)", 12},
               {"by count", 12},
               {"busiest", 12},
               {"messages", 8},
               {"rounds", 6},
               {"#wrong", 6}},
              ranks.prints(),
              progress};
  std::vector<Bar> sent, times;
  std::vector<Contender> contenders;
  for (auto const& policy : policies) {
    std::vector<Method> const method{method_of<T>(policy)};
    progress.begin(policy, steps);
    auto const outcome =
        measure(ranks, work, method, {steps, options.warmup, 1, options.check, report.traced()}, sizeof(T), progress)[0];
    double const seconds = outcome.seconds.median, algbw = bytes / seconds / 1e9;
    table.row({fixed(bytes, 0), fixed(touched * real(width), 0), type, policy, fixed(seconds * 1e6, 1),
               fixed(outcome.seconds.low * 1e6, 1), fixed(outcome.seconds.high * 1e6, 1), fixed(algbw, 3),
               fixed(algbw * bus, 3), fixed(outcome.sent_of_rank(outcome.counted), 0),
               fixed(outcome.sent_of_rank(outcome.expected), 0), fixed(outcome.most_sent(outcome.counted), 0),
               fixed(outcome.messages, 1), fixed(outcome.rounds, 1), options.check ? std::to_string(outcome.wrong) : "N/A"});
    report.wrong(outcome.wrong);
    report.add({{"command", "ps"},
                {"policy", policy},
                {"partition", partition},
                {"rows", rows},
                {"width", width},
                {"type", type},
                {"ids_per_rank", drawn},
                {"rows_per_rank", touched},
                {"size_bytes", bytes},
                {"time_us", seconds * 1e6},
                {"time_p10_us", outcome.seconds.low * 1e6},
                {"time_p90_us", outcome.seconds.high * 1e6},
                {"algbw_GBps", algbw},
                {"busbw_GBps", algbw * bus},
                {"sent_bytes_per_rank_step", outcome.sent_of_rank(outcome.counted)},
                {"expected_bytes_per_rank_step", outcome.sent_of_rank(outcome.expected)},
                {"sent_bytes_busiest_rank_step", outcome.most_sent(outcome.counted)},
                {"messages_per_step", outcome.messages},
                {"rounds_per_step", outcome.rounds},
                {"wrong", outcome.wrong}});
    contenders.push_back({policy, outcome.seconds});
    sent.push_back({policy, outcome.sent_of_rank(outcome.counted) / 1e6});
    times.push_back({policy, seconds * 1e3, outcome.seconds.low * 1e3, outcome.seconds.high * 1e3});
  }
  std::min_element(sent.begin(), sent.end(), [](Bar const& a, Bar const& b) { return a.value < b.value; })->best = true;
  Fastest const winners{contenders};
  for (Bar& bar : times) bar.best = winners.has(bar.label);
  report.found(winners.sentence("of a pull and a step"));
  report.section({bar_chart("Sent by a rank in a step", "MB (10^6 bytes)", sent),
                  bar_chart("Time of a step: median, tenth to ninetieth percentile", "ms", times)},
                 table);
}

namespace {

[[maybe_unused]] bool const here = bring("ps", [](Run const& run) {
  for_scalar(run.options, [&]<class T>(T) { run_ps<T>(run.options, run.ranks, run.report, run.progress, run.recorded); });
});

}  // namespace

}  // namespace bench
