// Who took the least time, and whom the spread cannot tell from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "text.hpp"

namespace bench {

struct Summary {
  double median = 0, low = 0, high = 0;  // low and high: a tenth of the values lies beyond
};
inline Summary summary_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  auto const quantile = [&](double q) { return values[at(q * real(values.size() - 1) + 0.5)]; };
  return {quantile(0.5), quantile(0.1), quantile(0.9)};
}

// Who took the least time. The spread cannot tell those apart whose tenth of quickest steps lies below the slowest tenth of the
// winner's: they tie.
struct Contender {
  std::string name;
  Summary seconds;
};
struct Fastest {
  explicit Fastest(std::vector<Contender> const& all) {
    contenders = all.size();
    if (all.empty()) return;
    winner = *std::min_element(all.begin(), all.end(),
                               [](auto const& a, auto const& b) { return a.seconds.median < b.seconds.median; });
    for (Contender const& one : all)
      if (one.name == winner.name || one.seconds.low <= winner.seconds.high) names.push_back(one.name);
  }
  bool has(std::string const& name) const { return std::find(names.begin(), names.end(), name) != names.end(); }
  // "hybrid takes the least time of ..., 3.1 ms."
  std::string sentence(std::string const& of_what) const {
    if (names.empty()) return "Nothing was measured.";
    std::string const milliseconds = shown(winner.seconds.median * 1e3) + " ms", median = ", " + milliseconds;
    if (contenders == 1) return winner.name + " alone was measured: its time " + of_what + " is " + milliseconds + ".";
    if (names.size() == 1) return winner.name + " takes the least time " + of_what + median + ".";
    return "A tie: the spread cannot tell " + listed(names) + " apart in the time " + of_what +
           "; the least median is that of " + winner.name + median + ".";
  }

  // Of a table's row: "", "yes" or "tie".
  std::string cell(std::string const& name) const { return !has(name) ? "" : names.size() > 1 ? "tie" : "yes"; }

  std::size_t contenders = 0;
  Contender winner;
  std::vector<std::string> names;  // the winner's, and of those who tie with it
};

}  // namespace bench
