// parallax-bench allreduce: a dense variable by size, beside MPI's own all-reduce, in the columns of nccl-tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "measured.hpp"
#include "report.hpp"

namespace bench {

template <class T>
void run_allreduce(Options const& options, Ranks& ranks, Report& report, Progress& progress) {
  std::vector<Method> methods{method_of<T>("all_reduce")};
  methods[0].name = "session_fixed";
  if (ranks.has_vendor()) methods.insert(methods.end(), {vendor_method<T>(), raw_method<T>(true), raw_method<T>(false)});
  std::string const type = sizeof(T) == 4 ? "float" : "double";
  double const n = ranks.size(), bus = 2 * (n - 1) / n;
  Table table{
      "all-reduce and update of one dense variable, " + std::to_string(ranks.size()) + " ranks; busbw = algbw * 2(N-1)/N",
      {{"size(B)", 11},
       {"count", 10},
       {"type", 6, true},
       {"method", 14, true},
       {"time(us)", 10},
       {"algbw(GB/s)", 8},
       {"busbw(GB/s)", 8},
       {"#wrong", 6}},
      ranks.prints(),
      progress};
  std::vector<Line> speed(methods.size()), times(methods.size());
  for (std::size_t size = options.begin; size <= options.end; size *= options.factor) {
    std::size_t const count = std::max<std::size_t>(size / sizeof(T), 1), bytes = count * sizeof(T);
    Workload const work{ranks.size(), 1, {{"values", static_cast<std::int64_t>(count)}}, {}, {}, {}};
    int const suited = options.smoke ? 2 : static_cast<int>(std::clamp<std::size_t>((std::size_t{64} << 20) / bytes, 10, 1000));
    int const steps = options.iterations ? options.iterations : suited, block = (steps + 4) / 5;
    progress.begin(std::to_string(bytes) + " bytes", (steps + block - 1) / block * static_cast<int>(methods.size()));
    auto const outcomes =
        measure(ranks, work, methods, {steps, std::max(options.warmup, 0), block, options.check}, sizeof(T), progress);
    for (std::size_t m = 0; m < methods.size(); ++m) {
      Outcome const& outcome = outcomes[m];
      double const seconds = outcome.seconds.median, algbw = real(bytes) / seconds / 1e9;
      table.row({std::to_string(bytes), std::to_string(count), type, methods[m].name, fixed(seconds * 1e6, 2), fixed(algbw, 3),
                 fixed(algbw * bus, 3), options.check ? std::to_string(outcome.wrong) : "N/A"});
      speed[m].name = times[m].name = methods[m].name;
      speed[m].points.emplace_back(real(bytes), algbw * bus);
      times[m].points.emplace_back(real(bytes), seconds * 1e6);
      report.wrong(outcome.wrong);
      report.add({{"command", "allreduce"},
                  {"method", methods[m].name},
                  {"size_bytes", static_cast<std::int64_t>(bytes)},
                  {"count", static_cast<std::int64_t>(count)},
                  {"type", type},
                  {"time_us", seconds * 1e6},
                  {"time_p10_us", outcome.seconds.low * 1e6},
                  {"time_p90_us", outcome.seconds.high * 1e6},
                  {"algbw_GBps", algbw},
                  {"busbw_GBps", algbw * bus},
                  {"sent_bytes_per_rank_step", outcome.sent_of_rank(methods[m].counted ? outcome.counted : outcome.expected)},
                  {"wrong", outcome.wrong}});
    }
  }
  report.section({line_chart("Time of a step", "size (bytes)", "time (us)", 2, true, times),
                  ranks.size() > 1 ? line_chart("Bus bandwidth", "size (bytes)", "busbw (GB/s)", 2, false, speed) : ""},
                 table);
}

}  // namespace bench
