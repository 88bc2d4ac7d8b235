// parallax-bench compare: see compare.hpp, whose measurement `report` and `peers` share.
#include "compare.hpp"

#include "commands.hpp"

namespace bench {

namespace {

void run_compare(Run const& run) {
  for_scalar(run.options, [&]<class T>(T) {
    Comparison<T>{run.options, run.ranks, run.report, run.progress, run.recorded}.run();
  });
}

[[maybe_unused]] bool const here = bring("compare", run_compare);

}  // namespace

}  // namespace bench
