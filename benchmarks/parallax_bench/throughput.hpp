// Throughput of a model under every policy, by the number of ranks.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "compare.hpp"

namespace bench {

// Of 1, 2, 4, … thread ranks up to `options.ranks`, each a host.
template <class T>
void run_throughput(Options options, Environment const& environment, Report& report, Progress& progress, Ids const* recorded) {
  Model const model = asked_model(options);
  auto const methods = asked_methods<T>(options);
  int const most = options.ranks ? options.ranks : 2, steps = options.iterations ? options.iterations : options.smoke ? 2 : 10;
  Table table{model.name + (options.scale > 1 ? " at 1/" + std::to_string(options.scale) : "") +
                  ": batches that all ranks together train in a second; more ranks than " +
                  std::to_string(std::thread::hardware_concurrency()) + ", the cores, take turns",
              {{"ranks", 5}, {"policy", 22, true}, {"ms/step", 9}, {"p10", 9}, {"p90", 9}, {"batches/s", 9}, {"#wrong", 6}},
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
    for (std::size_t m = 0; m < methods.size(); ++m) {
      progress.begin(std::to_string(count) + " ranks, " + methods[m].name, steps);
      Schedule const plan{steps, options.smoke ? 1 : options.warmup, 1, options.check};
      auto const outcome = measure(ranks, work, {methods[m]}, plan, sizeof(T), progress)[0];
      double const batches = count / outcome.seconds.median;
      lines[m].points.emplace_back(count, batches);
      table.row({std::to_string(count), methods[m].name, fixed(outcome.seconds.median * 1e3, 3),
                 fixed(outcome.seconds.low * 1e3, 3), fixed(outcome.seconds.high * 1e3, 3), fixed(batches, 2),
                 options.check ? std::to_string(outcome.wrong) : "N/A"});
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
    if (count == most) break;
  }
  report.section({line_chart("Throughput by ranks", "ranks", "batches per second", 2, false, lines)}, table);
}

}  // namespace bench
