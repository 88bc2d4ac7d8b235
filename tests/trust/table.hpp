// What a trust test counted, by kind, printed as a table whether it passes or not.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "../catch.hpp"

namespace parallax_test {

// `wrong`: not what was promised. `hangs`: ended by a deadline that nothing should come near. Each case is run once.
struct Tally {
  int cases = 0, wrong = 0, hangs = 0;
  std::string first = {};  // what was wrong first
};

// Used by the thread that runs the test case.
class Table {
 public:
  // `printed`: on one rank of several.
  explicit Table(std::string title, bool printed = true) : title_{std::move(title)}, printed_{printed} {}
  Table(Table const&) = delete;
  Table& operator=(Table const&) = delete;
  ~Table() {
    if (!printed_) return;
    std::printf("%-72s %8s %6s %6s\n", title_.c_str(), "cases", "wrong", "hangs");
    for (auto const& [kind, tally] : kinds_) print(kind, tally);
    print("all", all());
    std::fflush(stdout);
  }

  Tally& operator[](std::string const& kind) { return kinds_[kind]; }

  // Counts a case; `complaint` is empty where all is as promised.
  void count(std::string const& kind, std::string const& complaint, bool hung = false) {
    Tally& tally = kinds_[kind];
    ++tally.cases;
    tally.hangs += hung;
    if (complaint.empty()) return;
    ++tally.wrong;
    if (tally.first.empty()) tally.first = complaint;
  }

  Tally all() const {
    Tally sum;
    for (auto const& [kind, tally] : kinds_) {
      sum.cases += tally.cases;
      sum.wrong += tally.wrong;
      sum.hangs += tally.hangs;
    }
    return sum;
  }

  // Fails the test case unless nothing was wrong in at least so many cases.
  void check(int at_least) const {
    for (auto const& [kind, tally] : kinds_) {
      INFO(kind << ": " << tally.first);
      CHECK(tally.wrong == 0);
      CHECK(tally.hangs == 0);
    }
    CHECK(all().cases >= at_least);
  }

 private:
  static void print(std::string const& kind, Tally const& tally) {
    std::printf("  %-70s %8d %6d %6d\n", kind.c_str(), tally.cases, tally.wrong, tally.hangs);
    if (!tally.first.empty()) std::printf("    first: %s\n", tally.first.c_str());
  }

  std::string title_;
  bool printed_;
  std::map<std::string, Tally> kinds_;
};

}  // namespace parallax_test
