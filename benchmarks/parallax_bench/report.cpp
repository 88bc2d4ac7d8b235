// parallax-bench report: the throughput of a model under every policy, by the number of ranks, and three other commands, on one page.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "commands.hpp"
#include "compare.hpp"

namespace bench {

// Of 1, 2, 4, … thread ranks up to `options.ranks`, each a host.
template <class T>
void run_throughput(Options options, Environment const& environment, Report& report, Progress& progress, Ids const* recorded) {
  Model const model = asked_model(options);
  auto const methods = asked_methods<T>(options);
  int const most = options.ranks ? options.ranks : 2, steps = options.iterations ? options.iterations : options.smoke ? 2 : 10;
  Table table{"throughput of " + model.name + (options.scale > 1 ? " at 1/" + std::to_string(options.scale) : "") +
                  ": batches that all ranks together train in a second; more ranks than " +
                  std::to_string(std::thread::hardware_concurrency()) + ", the cores, take turns",
              {{"ranks", 5},
               {"policy", 22, true},
               {"ms/step", 9},
               {"p10", 9},
               {"p90", 9},
               {"batches/s", 9},
               {"fastest", 7, true},
               {"#wrong", 6}},
              true,
              progress};
  std::vector<Line> lines;
  for (auto const& method : methods) lines.push_back({method.name, {}});
  for (int count = 1;; count = std::min(2 * count, most)) {
    options.ranks = count;
    Ranks ranks{environment, options};
    Workload const work =
        make_workload(options, model.dense, model.sparse, count, std::min(steps, 4), options.alpha, false, recorded);
    refuse_too_large(model, work, methods, memory_available(), sizeof(T));
    std::vector<Contender> contenders;
    std::vector<std::int64_t> wrong;
    for (std::size_t m = 0; m < methods.size(); ++m) {
      progress.begin(std::to_string(count) + " ranks, " + methods[m].name, steps);
      Schedule const plan{steps, options.smoke ? 1 : options.warmup, 1, options.check};
      auto const outcome = measure(ranks, work, {methods[m]}, plan, sizeof(T), progress)[0];
      double const batches = count / outcome.seconds.median;
      contenders.push_back({methods[m].name, outcome.seconds});
      wrong.push_back(outcome.wrong);
      lines[m].points.emplace_back(count, batches);
      report.wrong(outcome.wrong);
      report.add({{"command", "throughput"},
                  {"model", model.name},
                  {"scale", options.scale},
                  {"ranks", std::int64_t{count}},
                  {"policy", methods[m].name},
                  {"time_ms", outcome.seconds.median * 1e3},
                  {"batches_per_s", batches},
                  {"wrong", outcome.wrong}});
    }
    Fastest const winners{contenders};
    for (std::size_t m = 0; m < methods.size(); ++m) {
      auto const& [name, seconds] = contenders[m];
      table.row({std::to_string(count), name, fixed(seconds.median * 1e3, 3), fixed(seconds.low * 1e3, 3),
                 fixed(seconds.high * 1e3, 3), fixed(count / seconds.median, 2), winners.cell(name),
                 options.check ? std::to_string(wrong[m]) : "N/A"});
    }
    if (count == most) break;
  }
  report.section({line_chart("Throughput by ranks", "ranks", "batches per second", 2, false, lines)}, table);
}

namespace {

void run_report(Run const& run) {
  for_scalar(run.options,
             [&]<class T>(T) { run_throughput<T>(run.options, run.environment, run.report, run.progress, run.recorded); });
  bench::run("compare", run);
  Options of_partition = run.options;
  of_partition.ranks = 0;
  Run on_partition{of_partition, run.environment, run.ranks, run.report, run.progress, run.recorded, true};
  bench::run("partition", on_partition);
  if (bodies().count("converge")) bench::run("converge", run);  // where there is Eigen, but not in parallax-bench-report
  else run.report.found("What the models of examples/ learn is left out: this program was built without the command converge.");
}

[[maybe_unused]] bool const here = bring("report", run_report);

}  // namespace

}  // namespace bench
