// parallax-bench crossing: tables of some sizes under the parameter server and under all-reduce, by the share of their rows
// that a step touches, down to a table of the shares at which the two cost the same.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "commands.hpp"
#include "sweep.hpp"

namespace bench {

namespace {

template <class T>
void run_crossing(Run const& run) {
  Options options = run.options;
  options.scale = 1;
  std::int64_t const width = options.width ? options.width : 64, row_bytes = width * static_cast<std::int64_t>(sizeof(T));
  if (!options.alpha_sweep_given) options.alpha_sweep = {.001, .01, .03, .1, .3, 1};
  std::vector<TableShape> shapes;
  for (std::size_t bytes = options.begin; bytes <= options.end && (shapes.empty() || !options.smoke); bytes *= options.factor) {
    std::int64_t const rows = options.smoke ? 100 : std::max<std::int64_t>(static_cast<std::int64_t>(bytes) / row_bytes, 1);
    shapes.push_back({shown(real(rows * row_bytes) / real(1 << 20)) + " MiB", rows, width, 1});
  }
  sweep<T>(options, "table", shapes, run.ranks, run.report, run.progress, run.ranks.least(memory_available()));
}

[[maybe_unused]] bool const here =
    bring("crossing", [](Run const& run) { for_scalar(run.options, [&]<class T>(T) { run_crossing<T>(run); }); });

}  // namespace

}  // namespace bench
