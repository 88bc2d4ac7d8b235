#include "fastest.hpp"

#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "crossing.hpp"

namespace {

using Names = std::vector<std::string>;

TEST_CASE("those tie whose quickest tenth does not lie above the winner's slowest", "[bench][fastest]") {
  bench::Fastest const fastest{{{"above", {5, 3.01, 6}}, {"winner", {2, 1, 3}}, {"at", {4, 3, 9}}, {"below", {2.5, 0.5, 2.6}}}};
  CHECK(fastest.names == Names{"winner", "at", "below"});
  CHECK(fastest.winner.name == "winner");
  CHECK(fastest.cell("at") == "tie");
  CHECK(fastest.cell("winner") == "tie");
  CHECK(fastest.cell("above").empty());
  CHECK(
      fastest.sentence("of a step") ==
      "winner, at and below tie in the time of a step (by their spreads from tenth to ninetieth percentile); winner takes the "
      "least, 2 s, and above the most, 5 s.");
}

TEST_CASE("equal times tie", "[bench][fastest]") {
  bench::Fastest const fastest{{{"a", {1, 1, 1}}, {"b", {1, 1, 1}}}};
  CHECK(fastest.names == Names{"a", "b"});
  CHECK(fastest.sentence("of a step") ==
        "a and b tie in the time of a step (by their spreads from tenth to ninetieth percentile); a takes the least, 1 s.");
}

TEST_CASE("who is the fastest beyond the spread does so alone", "[bench][fastest]") {
  bench::Fastest const fastest{{{"slow", {5, 4, 6}}, {"quick", {2, 1, 3}}}};
  CHECK(fastest.names == Names{"quick"});
  CHECK(fastest.cell("quick") == "yes");
  CHECK(fastest.cell("slow").empty());
  CHECK(fastest.sentence("of a step") == "quick takes the least time of a step, 2 s, and slow the most, 5 s.");
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

TEST_CASE("a quantity has its own verb, unit and rule, and a name with a comma stands between quotes", "[bench][fastest]") {
  bench::Quantity const load{"has", "load", " times the mean", "within 1 %"};
  bench::Fastest const tied{{{"hybrid, ranks", bench::within(.01, 1)}, {"b", bench::within(.01, 1.009)}, {"c", {3, 3, 3}}}};
  CHECK(tied.sentence("of 8 owners", load) ==
        "\"hybrid, ranks\" and b tie in the load of 8 owners (within 1 %); \"hybrid, ranks\" has the least, 1 times the mean, "
        "and "
        "c the most, 3 times the mean.");
  bench::Fastest const alone{{{"a", bench::within(.01, 1.25)}}};
  CHECK(alone.sentence("of 8 owners", load) == "a alone was measured: its load of 8 owners is 1.25 times the mean.");
}

TEST_CASE("values tie that are within a share of each other, and no others", "[bench][fastest]") {
  auto const tie = [](double a, double b) {
    return bench::Duel{"", {"a", bench::within(.05, a)}, {"b", bench::within(.05, b)}}.tied();
  };
  CHECK(tie(1, 1));
  CHECK(tie(1, 1.049));
  CHECK(tie(1.049, 1));
  CHECK_FALSE(tie(1, 1.051));
  CHECK_FALSE(tie(1.051, 1));
  CHECK(bench::within_rule(.05) == "within 5 %");
}

bench::Duel duel(std::string where, double mine, double other) {
  return {std::move(where), {"ours", bench::within(.05, mine)}, {"theirs, fused", bench::within(.05, other)}};
}

TEST_CASE("of many duels the won, the tied and the lost are counted, and the ends named", "[bench][fastest]") {
  CHECK(
      bench::sentence_of({duel("w1", 1, 3), duel("w2", 1, 1.02), duel("w3", 2, 1), duel("w4", 1, 2)}, "ours", "MPI", "cases",
                         "within 5 %") ==
      "ours is quicker than MPI in 2 of 4 cases, ties in 1 (within 5 %) and is slower in 1: its speed is from 0.5 (w3, beside "
      "theirs, fused) to 3 (w1, beside theirs, fused) times as much.");
  CHECK(bench::sentence_of({duel("w1", 1, 1), duel("w2", 1, 1)}, "ours", "MPI", "cases", "within 5 %") ==
        "ours is quicker than MPI in none of 2 cases, ties in 2 (within 5 %) and is slower in none: its speed is from 1 (w1, "
        "beside theirs, fused) to 1 (w2, beside theirs, fused) times as much.");
}

TEST_CASE("a single duel is told by itself, a tie as a tie", "[bench][fastest]") {
  auto const told = [](double mine, double other) {
    return bench::sentence_of({duel("w1", mine, other)}, "ours", "MPI", "cases", "within 5 %");
  };
  CHECK(told(1, 3) == "ours has 3 times the speed of \"theirs, fused\" in w1.");
  CHECK(told(2, 1) == "ours has 0.5 times the speed of \"theirs, fused\" in w1.");
  CHECK(told(1, 1.02) == "ours ties with \"theirs, fused\" in w1 (within 5 %), at 1.02 times the speed of \"theirs, fused\".");
  CHECK(bench::sentence_of({}, "ours", "MPI", "cases", "within 5 %") == "Nothing was measured.");
}

TEST_CASE("results that are the same to the bit are told from those that are off", "[bench][fastest]") {
  CHECK(
      bench::agreement({{"a", 0, 0}, {"b", 0, 0}, {"c", 2e-5, .001}}, "a perplexity of 3 after 4 steps") ==
      "a and b reach a perplexity of 3 after 4 steps, the same to the bit; c is off by up to 0.002 % of it (allowed: 0.1 %).");
  CHECK(bench::agreement({{"a", 0, 0}, {"b", 0, 0}}, "a perplexity of 3") ==
        "a and b reach a perplexity of 3, the same to the bit.");
  CHECK(
      bench::agreement({{"a", 0, 0}, {"b", .5, 0}, {"c", std::numeric_limits<double>::quiet_NaN(), 0}}, "a perplexity of 3") ==
      "a reaches a perplexity of 3; b is off by up to 50 % of it (allowed: 0 %) and c is off by up to - % of it (allowed: 0 "
      "%).");
  CHECK(bench::agreement({{"a", 0, 0}}, "a perplexity of 3") == "a reaches a perplexity of 3; nothing was trained beside it.");
  CHECK(bench::agreement({}, "") == "Nothing was measured.");
}

TEST_CASE("a sentence has numbers of three digits, thousands apart, and times in the unit that fits", "[bench][text]") {
  CHECK(bench::said(52.325) == "52.3");
  CHECK(bench::said(0.0010053) == "0.00101");
  CHECK(bench::said(99.2101) == "99.2");
  CHECK(bench::said(1440) == "1,440");
  CHECK(bench::said(-1234567) == "-1,234,567");
  CHECK(bench::said(-123) == "-123");
  CHECK(bench::said(12345.678) == "12,346");
  CHECK(bench::said(999.7) == "1,000");
  CHECK(bench::said(100) == "100");
  CHECK(bench::said(std::numeric_limits<double>::infinity()) == "-");
  CHECK(bench::said_time(0.04892) == "48.9 ms");
  CHECK(bench::said_time(12.3456) == "12.3 s");
  CHECK(bench::said_time(0.9996) == "1 s");
  CHECK(bench::said_time(0.00056) == "560 µs");
  CHECK(bench::said_share(0.001) == "0.1 %");
}

TEST_CASE("two curves meet within the shares that were tried, or they do not", "[bench][crossing]") {
  auto const told = [](std::vector<double> const& alphas, std::vector<double> const& a, std::vector<double> const& b) {
    return bench::meeting("a", "b", "bytes", alphas, a, b);
  };
  std::string const first = "At alpha 0.01, where a rank touches 1 % of a table's rows in a step, a needs ";
  CHECK(told({.01, 1}, {1, 100}, {10, 10}) == first + "0.1 times the bytes that b needs; they meet at alpha 0.1.");
  CHECK(told({.01, 1}, {1, 5}, {10, 10}) == first + "0.1 times the bytes that b needs, and less at every share up to alpha 1.");
  CHECK(told({.01, 1}, {20, 50}, {10, 10}) == first + "2 times the bytes that b needs; no lesser share was tried.");
  CHECK(told({.01}, {1}, {10}) == first + "0.1 times the bytes that b needs; no other share was tried.");
  CHECK(told({.01}, {0}, {0}) == "a and b cannot be compared by bytes.");
  CHECK(told({}, {}, {}) == "Nothing was measured.");
}

}  // namespace
