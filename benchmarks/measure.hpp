// Measuring beside other programs: contenders run in turn, the best round of each counts, and a table says which goals hold.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace measure {

struct Options {
  bool smoke = false;  // tiny sizes: are the results right?
  bool check = false;  // a missed goal is a failure
  int rounds = 15;

  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      std::string_view const option = argv[i];
      if (option == "--smoke") smoke = true, rounds = 1;
      else if (option == "--check") check = true;
      else if (option.starts_with("--rounds=")) rounds = std::max(1, std::atoi(argv[i] + 9));
      else {
        std::fprintf(stderr, "%s: --smoke | --check | --rounds=n\n", argv[i]);
        std::exit(2);
      }
    }
  }
};

// Runs each contender once a round, so that what slows the machine down slows all of them; one round more comes first and is
// not counted. Returns the seconds of each one's best round.
template <class... Run>
std::vector<double> best_seconds(int rounds, Run&&... contenders) {
  std::vector<double> best(sizeof...(Run), std::numeric_limits<double>::infinity());
  for (int round = -1; round < rounds; ++round) {
    std::size_t number = 0;
    auto const time = [&](auto& run) {
      auto const begin = std::chrono::steady_clock::now();
      run();
      std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
      if (round >= 0) best[number] = std::min(best[number], took.count());
      ++number;
    };
    (time(contenders), ...);
  }
  return best;
}

// The table that a benchmark prints, line by line. A speed is what it is compared with, over its own time: 2 is twice as fast.
class Report {
 public:
  explicit Report(Options const& options) : options_{options} {
    std::printf("%-52s %10s  %-22s %10s %7s %7s\n", "", "ms", "compared with", "ms", "speed", "goal");
  }

  // `goal` is the least speed; 0: none.
  void line(std::string const& what, double seconds, std::string const& reference, double reference_seconds, double goal = 0) {
    double const speed = reference_seconds / seconds;
    bool const missed = speed < goal && !options_.smoke;
    missed_ += missed;
    std::printf("%-52s %10.3f  %-22s %10.3f %7.2f ", what.c_str(), seconds * 1e3, reference.c_str(), reference_seconds * 1e3,
                speed);
    if (goal > 0) std::printf("%7.2f%s", goal, missed ? "  MISSED" : "");
    std::printf("\n");
    std::fflush(stdout);
  }

  void result(std::string const& what, bool right) {
    wrong_ += !right;
    if (!right) std::printf("%s: WRONG RESULT\n", what.c_str());
  }

  int exit_code() const {
    std::printf("%d goals missed, %d results wrong\n", missed_, wrong_);
    return wrong_ > 0 || (options_.check && missed_ > 0) ? 1 : 0;
  }

 private:
  Options options_;
  int missed_ = 0, wrong_ = 0;
};

}  // namespace measure
