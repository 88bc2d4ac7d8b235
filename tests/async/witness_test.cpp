// Every read of a training apart is held against what the witnesses say, and against the owners' logs.
#include <algorithm>
#include <cstdint>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/comm/thread.hpp"
#include "witness.hpp"

using namespace async_test;

namespace {

template <class Rule>
void hold(Rule const& rule, std::int64_t most, Shape const& shape, std::uint64_t seed) {
  std::uint64_t reads = 0;
  std::int64_t furthest = 0, of_logs = 0;
  px::ThreadOptions options;
  options.mailbox.window = shape.window;
  auto const run = [&](int ranks, auto const& body) { px::run_threads(ranks, body, options); };
  for (Seen const& seen : witness<px::ThreadCommunicator>(run, rule, most, shape, seed)) {
    CHECK(seen.wrong == "");
    reads += seen.reads;
    furthest = std::max(furthest, seen.furthest);
    Told const told = told_by(seen.log, shape.workers);
    CHECK(told.wrong == "");
    of_logs = std::max(of_logs, told.furthest);
    if (most != 0 && seen.log.size() > 0) CHECK(seen.counts.ages == told.ages);
  }
  CHECK(of_logs == furthest);  // what was read and what was written down agree
  WARN(Rule::name << " " << most << ", " << shape.workers << " workers, " << shape.servers << " servers, window "
                  << shape.window << ": " << reads << " reads, the furthest " << furthest << " behind");
  CHECK((most < 0 || furthest <= most));
}

std::int64_t const pushes = parallax_test::sized(100, 400, 40'000);

}  // namespace

TEST_CASE("a pull shows whole prefixes of every worker's pushes, and no older ones than promised", "[async][witness]") {
  std::uint64_t const seed = 11;
  for (bool const sleeps : {false, true})
    for (Shape const shape :
         {Shape{4, 2, pushes, 8, sleeps}, Shape{3, 0, pushes, 8, sleeps}, Shape{3, 1, pushes / 2, 1, sleeps}}) {
      hold(px::Ssp{0}, 0, shape, seed);
      hold(px::Ssp{1}, 1, shape, seed);
      hold(px::Ssp{3}, 3, shape, seed);
      hold(px::Ssp{8}, 8, shape, seed);
      hold(px::Asp{}, -1, shape, seed);
    }
}
