// parallax-bench allreduce: a dense variable by size, beside MPI's own all-reduce, in the columns of nccl-tests.
#include <algorithm>
#include <string>
#include <vector>

#include "commands.hpp"
#include "measured.hpp"
#include "report.hpp"

namespace bench {

template <class T>
void run_allreduce(Options const& options, Ranks& ranks, Report& report, Progress& progress) {
  std::vector<Method> methods{method_of<T>("all_reduce")}, in_place{method_of<T>(in_place_method)};
  methods[0].name = "session_fixed";
  if (ranks.has_vendor()) {
    for (auto const key : {vendor_method, blocking_method, raw_method}) methods.push_back(method_of<T>(key));
    for (auto const key : {vendor_in_place, blocking_in_place, raw_in_place}) in_place.push_back(method_of<T>(key));
    methods.back().name = "MPI_Iallreduce";
  }
  std::size_t const each = methods.size();
  methods.insert(methods.end(), in_place.begin(), in_place.end());
  std::string const type = sizeof(T) == 4 ? "float" : "double";
  double const n = ranks.size(), bus = 2 * (n - 1) / n;
  Table table{"all-reduce and update of one dense variable, " + std::to_string(ranks.size()) +
                  " ranks; in place: the sums may lie over the gradients; busbw = algbw * 2(N-1)/N",
              {{"size(B)", 11},
               {"count", 10},
               {"type", 6, true},
               {"method", 14, true},
               {"time(us)", 10},
               {"p10", 9},
               {"p90", 9},
               {"algbw(GB/s)", 8},
               {"busbw(GB/s)", 8},
               {"#wrong", 6},
               {"in place: time", 10},
               {"p10", 9},
               {"p90", 9},
               {"algbw", 8},
               {"busbw", 8},
               {"#wrong", 6}},
              ranks.prints(),
              progress};
  std::vector<Line> speed(each), times(each);
  std::string found;  // of the last size
  for (std::size_t size = options.begin; size <= options.end; size *= options.factor) {
    std::size_t const count = std::max<std::size_t>(size / sizeof(T), 1), bytes = count * sizeof(T);
    Workload const work{ranks.size(), 1, {{"values", static_cast<std::int64_t>(count)}}, {}, {}, {}};
    int const suited = options.smoke ? 2 : static_cast<int>(std::clamp<std::size_t>((std::size_t{64} << 20) / bytes, 10, 1000));
    int const steps = options.iterations ? options.iterations : suited, block = (steps + 4) / 5;
    progress.begin(std::to_string(bytes) + " bytes", (steps + block - 1) / block * static_cast<int>(methods.size()));
    auto const outcomes =
        measure(ranks, work, methods, {steps, std::max(options.warmup, 0), block, options.check}, sizeof(T), progress);
    std::vector<Contender> contenders;
    for (std::size_t m = 0; m < methods.size(); ++m)
      contenders.push_back({m < each ? methods[m].name : methods[m - each].name + " in place", outcomes[m].seconds});
    found = Fastest{contenders}.sentence("of an all-reduce and update of " + std::to_string(bytes) + " bytes");
    for (std::size_t m = 0; m < each; ++m) {
      std::vector<std::string> row{std::to_string(bytes), std::to_string(count), type, methods[m].name};
      for (std::size_t const number : {m, each + m}) {
        Outcome const& outcome = outcomes[number];
        double const seconds = outcome.seconds.median, algbw = real(bytes) / seconds / 1e9;
        row.insert(row.end(),
                   {fixed(seconds * 1e6, 2), fixed(outcome.seconds.low * 1e6, 2), fixed(outcome.seconds.high * 1e6, 2),
                    fixed(algbw, 3), fixed(algbw * bus, 3), options.check ? std::to_string(outcome.wrong) : "N/A"});
        report.wrong(outcome.wrong);
        report.add(
            {{"command", "allreduce"},
             {"method", methods[number].name},
             {"in_place", static_cast<std::int64_t>(number != m)},
             {"size_bytes", static_cast<std::int64_t>(bytes)},
             {"count", static_cast<std::int64_t>(count)},
             {"type", type},
             {"time_us", seconds * 1e6},
             {"time_p10_us", outcome.seconds.low * 1e6},
             {"time_p90_us", outcome.seconds.high * 1e6},
             {"algbw_GBps", algbw},
             {"busbw_GBps", algbw * bus},
             {"sent_bytes_per_rank_step", outcome.sent_of_rank(methods[number].counted ? outcome.counted : outcome.expected)},
             {"wrong", outcome.wrong}});
      }
      table.row(row);
      double const seconds = outcomes[m].seconds.median;
      speed[m].name = times[m].name = methods[m].name;
      speed[m].points.emplace_back(real(bytes), real(bytes) / seconds / 1e9 * bus);
      times[m].points.emplace_back(real(bytes), seconds * 1e6);
    }
  }
  for (Line const& line : speed) {  // the closing line of nccl-tests, by method
    double sum = 0;
    for (auto const& point : line.points) sum += point.second;
    if (ranks.prints())
      print_line("# avg bus bandwidth of " + line.name + ": " + fixed(sum / real(line.points.size()), 3) + " GB/s");
  }
  report.found(found);
  report.section({line_chart("Time of a step", "size (bytes)", "time (us)", 2, true, times),
                  ranks.size() > 1 ? line_chart("Bus bandwidth", "size (bytes)", "busbw (GB/s)", 2, false, speed) : ""},
                 table);
}

namespace {

[[maybe_unused]] bool const here = bring("allreduce", [](Run const& run) {
  for_scalar(run.options, [&]<class T>(T) { run_allreduce<T>(run.options, run.ranks, run.report, run.progress); });
});

}  // namespace

}  // namespace bench
