#include "fastest.hpp"

#include <string>
#include <vector>

#include "catch.hpp"

namespace {

using Names = std::vector<std::string>;

TEST_CASE("those tie whose quickest tenth does not lie above the winner's slowest", "[bench][fastest]") {
  bench::Fastest const fastest{{{"above", {5, 3.01, 6}}, {"winner", {2, 1, 3}}, {"at", {4, 3, 9}}, {"below", {2.5, 0.5, 2.6}}}};
  CHECK(fastest.names == Names{"winner", "at", "below"});
  CHECK(fastest.winner.name == "winner");
  CHECK(fastest.cell("at") == "tie");
  CHECK(fastest.cell("winner") == "tie");
  CHECK(fastest.cell("above").empty());
  CHECK(fastest.sentence("of a step") ==
        "A tie: the spread cannot tell winner, at and below apart in the time of a step; the least median is that of winner, "
        "2000 ms.");
}

TEST_CASE("equal times tie", "[bench][fastest]") {
  bench::Fastest const fastest{{{"a", {1, 1, 1}}, {"b", {1, 1, 1}}}};
  CHECK(fastest.names == Names{"a", "b"});
}

TEST_CASE("who is the fastest beyond the spread does so alone", "[bench][fastest]") {
  bench::Fastest const fastest{{{"slow", {5, 4, 6}}, {"quick", {2, 1, 3}}}};
  CHECK(fastest.names == Names{"quick"});
  CHECK(fastest.cell("quick") == "yes");
  CHECK(fastest.cell("slow").empty());
  CHECK(fastest.sentence("of a step") == "quick takes the least time of a step, 2000 ms.");
}

TEST_CASE("one contender is called no winner", "[bench][fastest]") {
  CHECK(bench::Fastest{{{"a", {0.002, 0.001, 0.003}}}}.sentence("of a step") ==
        "a alone was measured: its time of a step is 2 ms.");
  CHECK(bench::Fastest{{}}.sentence("of a step") == "Nothing was measured.");
}

TEST_CASE("a summary has the median and the tenth and ninetieth percentile", "[bench][fastest]") {
  auto const summary = bench::summary_of({11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6});
  CHECK(summary.median == 6);
  CHECK(summary.low == 2);
  CHECK(summary.high == 10);
}

}  // namespace
