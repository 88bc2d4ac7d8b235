// Traces of ranks whose clocks are far apart, in one file: the true offsets are those that the ranks' communicators were given.
#include "parallax/interop/merged_trace.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/forwarding.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// Ranks that are threads, each with a clock of its own.
class Shifted : public px::Forwarding<px::ThreadCommunicator> {
 public:
  Shifted(px::ThreadCommunicator& inside, std::chrono::nanoseconds ahead) : Forwarding{inside, nullptr}, ahead_{ahead} {}
  std::chrono::nanoseconds now() const { return std::chrono::steady_clock::now().time_since_epoch() + ahead_; }

 private:
  std::chrono::nanoseconds ahead_;
};

// Returns the number behind `"key": ` in a line.
double number_of(std::string const& line, std::string const& key) {
  std::size_t const begin = line.find('"' + key + "\": ");
  REQUIRE(begin != line.npos);
  return std::strtod(line.c_str() + begin + key.size() + 4, nullptr);
}

// The texts of one rank, and when the first of its events began, in us of its own clock.
struct Told {
  std::string merged, events;
  double first;
};

std::vector<Told> merged_on(std::vector<std::int64_t> const& seconds_ahead) {
  int const ranks = static_cast<int>(seconds_ahead.size());
  std::vector<Told> texts(seconds_ahead.size());
  px::run_threads(ranks, [&](px::ThreadCommunicator& inside) {
    auto const rank = static_cast<std::size_t>(inside.rank());
    Shifted world{inside, std::chrono::seconds{seconds_ahead[rank]}};
    px::Session session{px::Topology{world, std::vector<int>{0, 1, 1}}};
    px::Variable<px::Sparse> words{session, "words", px::Table{.rows = 9, .width = 2}};
    std::vector<float> weights(100, 1.0f), gradient(100, 0.5f);
    px::Variable<px::Dense> layer{session, "layer", px::bind(weights)};
    session.broadcast(layer);
    {
      px::Trace const trace{session};
      for (int step = 0; step < 20; ++step) {
        auto const rows = session.pull(words, std::vector<int>{1, 8});
        session.step(px::grad(rows, std::vector<float>(4, 0.5f)), px::grad(layer, gradient));
      }
      texts[rank] = {px::merged(trace), trace.events(), 1e-3 * static_cast<double>(trace.recorded().front().at)};
    }
    session.finish();
  });
  return texts;
}

}  // namespace

TEST_CASE("a merged trace is on the clock of rank 0, and says how far the others are ahead", "[interop][trace]") {
  std::vector<std::int64_t> const ahead{3'000, -2'000, 86'400};
  std::vector<Told> const texts = merged_on(ahead);
  CHECK(texts[1].merged.empty());
  CHECK(texts[2].merged.empty());
  REQUIRE(texts[0].merged.starts_with("{\"traceEvents\": [\n{"));
  REQUIRE(texts[0].merged.ends_with("]}}\n"));
  std::istringstream lines{texts[0].merged};
  std::size_t clocks = 0;
  struct Span {
    double begin, end;
  };
  std::map<std::pair<std::string, int>, std::map<int, Span>> operations;  // by name and number: by rank
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("{\"rank\"")) {
      REQUIRE(number_of(line, "rank") == static_cast<double>(clocks));
      double const offset = number_of(line, "offset_us"), half = number_of(line, "half_width_us");
      double const truth = 1e6 * static_cast<double>(ahead[clocks] - ahead[0]);
      INFO(line);
      CHECK(std::abs(offset - truth) <= half + 1e-3);
      CHECK(half < 1e8);                           // however busy the machine is: the clocks are a thousand seconds apart
      CHECK(number_of(line, "agreements") == 60);  // one of each pull, two of each step
      ++clocks;
    } else if (line.starts_with("{\"name\"")) {
      std::string const name = line.substr(10, line.find('"', 10) - 10);
      double const begin = number_of(line, "ts");
      operations[{name, static_cast<int>(number_of(line, "operation"))}][static_cast<int>(number_of(line, "tid"))] = {
          begin, begin + number_of(line, "dur")};
      CHECK(number_of(line, "pid") == (number_of(line, "tid") == 0 ? 0 : 1));
    }
  }
  CHECK(clocks == 3);
  int whole = 0;
  for (auto const& [key, by_rank] : operations) {
    if (key.first != "step" && key.first != "pull") continue;
    ++whole;
    REQUIRE(by_rank.size() == 3);
    for (auto const& [rank, span] : by_rank)  // no rank has returned before all have called, but for what the bounds leave open
      for (auto const& [other, its] : by_rank) CHECK(span.end > its.begin - 1e8);
  }
  CHECK(whole == 40);
}

TEST_CASE("events of a rank lie near the clock of rank 0, and on its own where that may be the same", "[interop][trace]") {
  std::vector<std::int64_t> const ahead{3'000, -2'000, 86'400};
  std::vector<Told> const apart = merged_on(ahead), together = merged_on({5, 5, 5});
  for (std::size_t rank = 0; rank < ahead.size(); ++rank) {
    double const moved = 1e6 * static_cast<double>(ahead[rank] - ahead[0]);
    // However busy the machine is: the clocks are a thousand seconds apart.
    CHECK(std::abs(number_of(apart[rank].events, "ts") - (apart[rank].first - moved)) < 1e8);
    CHECK(std::abs(number_of(together[rank].events, "ts") - together[rank].first) < 1e-2);  // a double has 53 bits
  }
  CHECK(std::abs(number_of(apart[0].events, "ts") - apart[0].first) < 1e-2);
}

TEST_CASE("bounds of a clock hold the truth, and are those of the best agreement", "[interop][trace]") {
  using px::detail::Meeting;
  using px::detail::Meetings;
  std::uint64_t state = 7;
  auto const below = [&](std::uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((state >> 33) % n);
  };
  for (int turn = 0; turn < 200; ++turn) {
    std::int64_t const truth = below(2'000'000'000'000) - 1'000'000'000'000;
    Meetings first, theirs;
    std::int64_t now = 5'000, narrowest = std::numeric_limits<std::int64_t>::max(), nearest = narrowest;
    for (std::uint64_t number = 1; number <= 30; ++number) {
      std::int64_t const a = now + below(1'000'000), b = now + below(1'000'000), last = a > b ? a : b;  // who calls when
      std::int64_t const a_heard = last + 1'000 + below(500'000), b_heard = last + 1'000 + below(500'000);
      first[{"step", number, 2}] = {a, a_heard};
      theirs[{"step", number, 2}] = {b + truth, b_heard + truth};
      narrowest = std::min(narrowest, b_heard - a), nearest = std::min(nearest, a_heard - b);
      now = last + 1'000'000;
    }
    px::ClockOffset const found = px::detail::offset_of(theirs, first);
    CHECK(found.agreements == 30);
    CHECK(std::abs(found.offset - truth) <= found.half_width);
    CHECK(found.half_width == (narrowest + nearest) / 2 + 1);
  }
  CHECK(px::detail::offset_of({}, {}).agreements == 0);
}

TEST_CASE("operations that two sessions count alike say nothing of clocks", "[interop][trace]") {
  auto const event = [](std::uint64_t number, px::JournalWord const& phase, px::TraceEvent::Kind kind, std::int64_t at) {
    px::TraceEvent made{number, at, 0, "step", phase, kind};
    made.seen = at;
    return made;
  };
  std::vector<px::TraceEvent> events;
  for (std::uint64_t const number : {1u, 2u, 1u}) {
    auto const at = static_cast<std::int64_t>(100 * events.size());
    events.push_back(event(number, "called", px::TraceEvent::called, at));
    events.push_back(event(number, "agreeing", px::TraceEvent::advanced, at));
    events.push_back(event(number, "exchanging", px::TraceEvent::advanced, at + 10));
    events.push_back(event(number, "done", px::TraceEvent::done, at + 20));
  }
  auto const meetings = px::detail::meetings_of(events);
  REQUIRE(meetings.size() == 1);
  CHECK(std::get<1>(meetings.begin()->first) == 2);
  CHECK(meetings.begin()->second.begun == 400);
  CHECK(meetings.begin()->second.heard == 410);
}
