// Who took the least time, or has the least of something else, whom the spread cannot tell from it, and the sentences that say so.
#pragma once

#include <algorithm>
#include <cmath>
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

// Of what is no measurement, or was measured without a spread: two values tie where they are no further apart than this share.
inline Summary within(double share, double value) {
  double const half = std::sqrt(1 + share);
  return {value, value / half, value * half};
}

// What is compared, in words: "takes the least time", "tie in the time". `rule`: when two of it tie.
struct Quantity {
  std::string verb = "takes", noun = "time", unit = {};  // without a unit: seconds
  std::string rule = "by their spreads from tenth to ninetieth percentile";

  std::string shown(double value) const { return unit.empty() ? said_time(value) : said(value) + unit; }
};
inline std::string within_rule(double share) { return "within " + said_share(share); }

// Who has the least. The spread cannot tell those apart whose tenth of quickest steps lies below the slowest tenth of the
// winner's: they tie.
struct Contender {
  std::string name;
  Summary value;  // seconds, or what the quantity says
};
struct Fastest {
  explicit Fastest(std::vector<Contender> const& all) {
    contenders = all.size();
    if (all.empty()) return;
    auto const less = [](auto const& a, auto const& b) { return a.value.median < b.value.median; };
    winner = *std::min_element(all.begin(), all.end(), less);
    last = *std::max_element(all.begin(), all.end(), less);
    for (Contender const& one : all)
      if (one.name == winner.name || one.value.low <= winner.value.high) names.push_back(one.name);
  }
  bool has(std::string const& name) const { return std::find(names.begin(), names.end(), name) != names.end(); }
  // "hybrid takes the least time of a step, 3.1 ms, and all_reduce the most, 9 ms."
  std::string sentence(std::string const& of_what, Quantity const& quantity = {}) const {
    if (names.empty()) return "Nothing was measured.";
    auto const& [verb, noun, unit, rule] = quantity;
    std::string const who = called(winner.name), least = quantity.shown(winner.value.median);
    if (contenders == 1) return who + " alone was measured: its " + noun + ' ' + of_what + " is " + least + ".";
    std::string const most =
        has(last.name) ? "." : ", and " + called(last.name) + " the most, " + quantity.shown(last.value.median) + ".";
    if (names.size() == 1) return who + ' ' + verb + " the least " + noun + ' ' + of_what + ", " + least + most;
    std::vector<std::string> all;
    for (auto const& name : names) all.push_back(called(name));
    return listed(all) + " tie in the " + noun + ' ' + of_what + " (" + rule + "); " + who + ' ' + verb + " the least, " +
           least + most;
  }

  // Of a table's row: "", "yes" or "tie".
  std::string cell(std::string const& name) const { return !has(name) ? "" : names.size() > 1 ? "tie" : "yes"; }

  std::size_t contenders = 0;
  Contender winner, last;
  std::vector<std::string> names;  // the winner's, and of those who tie with it
};

// One beside another, in one case, by their seconds.
struct Duel {
  std::string where;
  Contender one, other;

  double speed() const { return other.value.median / one.value.median; }
  bool tied() const { return Fastest{{one, other}}.names.size() > 1; }
};

// "hybrid is quicker than MPI in 5 of 6 cases, ties in 1 (within 5 %) and is slower in none: its speed is from 0.98 (w1, beside a)
// to 4 (w2, beside b) times as much." `cases`: what they are.
inline std::string sentence_of(std::vector<Duel> const& duels, std::string const& one, std::string const& other,
                               std::string const& cases, std::string const& rule) {
  if (duels.empty()) return "Nothing was measured.";
  if (duels.size() == 1) {
    Duel const& only = duels[0];
    std::string const in = " in " + only.where, times = said(only.speed()) + " times the speed of " + called(only.other.name);
    if (only.tied())
      return called(only.one.name) + " ties with " + called(only.other.name) + in + " (" + rule + "), at " + times + ".";
    return called(only.one.name) + " has " + times + in + ".";
  }
  std::size_t quicker = 0, ties = 0;
  for (Duel const& duel : duels) duel.tied() ? ++ties : quicker += duel.speed() > 1;
  auto const count = [](std::size_t n) { return n == 0 ? "none" : std::to_string(n); };
  auto const slower_one = [](Duel const& a, Duel const& b) { return a.speed() < b.speed(); };
  auto const [least, most] = std::minmax_element(duels.begin(), duels.end(), slower_one);
  return one + " is quicker than " + other + " in " + count(quicker) + " of " + std::to_string(duels.size()) + ' ' + cases +
         ", ties in " + count(ties) + " (" + rule + ") and is slower in " + count(duels.size() - quicker - ties) +
         ": its speed is from " + said(least->speed()) + " (" + least->where + ", beside " + least->other.name + ") to " +
         said(most->speed()) + " (" + most->where + ", beside " + most->other.name + ") times as much.";
}

// How far a result may be, and was, from the first one's, as a share of that.
struct Result {
  std::string name;
  double off, allowed;
};

// "hybrid and all_gather reach a perplexity of 3, the same to the bit; auto is off by up to 0.001 % of it (allowed: 0.1 %)." `what`: with
// the figure of the first.
inline std::string agreement(std::vector<Result> const& results, std::string const& what) {
  if (results.empty()) return "Nothing was measured.";
  std::vector<std::string> same{called(results[0].name)}, off;
  for (std::size_t r = 1; r < results.size(); ++r) {
    auto const& [name, share, allowed] = results[r];
    if (share == 0) same.push_back(called(name));
    else
      off.push_back(called(name) + " is off by up to " + said_share(share) + " of it (allowed: " + said_share(allowed) + ")");
  }
  std::string const reach = same.size() > 1 ? " reach " : " reaches ", bits = same.size() > 1 ? ", the same to the bit" : "";
  if (results.size() == 1) return listed(same) + reach + what + "; nothing was trained beside it.";
  return listed(same) + reach + what + bits + (off.empty() ? "" : "; " + listed(off)) + ".";
}

}  // namespace bench
