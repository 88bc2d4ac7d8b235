// The search for a number of pieces: timed steps under a few numbers, and a model that says where the least time is.
// `Session::search_pieces` begins one for a variable under Auto, and each step tells it what it took.
#pragma once

#include <cstdint>

#include "parallax/core/archive.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/math.hpp"
#include "parallax/detail/core/slice.hpp"

namespace parallax::inline v0_2 {

// The bounds of a search: numbers of pieces from `least` to `most`, at most `probes` of them tried, each for `steps` steps,
// after `settling` that do not count. most 0: eight times the first number.
struct SearchOptions {
  std::int64_t least = 1,  // the least number that is tried
      most = 0;            // the most; 0: eight times the first number
  int probes = 6,          // numbers that are tried at most
      steps = 12,          // steps with each number that count
      settling = 2;        // steps before them that do not
};

// Searches the K for which t(K) = a + b / K + c · K is least: the model of Parallax (Kim et al., EuroSys 2019, section 3.2).
// The first probes are the number in force, four times and a quarter of it; each further one lies where the model, fitted to
// all probes, has its minimum, until that was tried before. The winner is the fastest number that was tried. A pure function of
// the seconds that it is told: ranks that are told the same agree.
template <class Seconds = double>
class BasicPieceSearch {
 public:
  // A number that was tried.
  struct Probe {
    // How many pieces.
    std::int64_t pieces;
    // How long a step took with it: the median.
    Seconds seconds;
  };

  // Begins with `first` pieces, the number in force, at least 1.
  BasicPieceSearch(std::int64_t first, SearchOptions const& options) : options_{options}, pieces_{first} {
    if (options_.most < 1) options_.most = 8 * first;
    options_.least = std::clamp<std::int64_t>(options_.least, 1, options_.most);
  }

  // The number that the next step is to be taken with.
  std::int64_t pieces() const { return pieces_; }
  // Whether the search is over: `pieces` is then the winner.
  bool done() const { return done_; }
  // What was tried so far, in this order. Valid until the next `add`.
  Slice<Probe const> probes() const { return probes_; }
  // How many steps were counted or let pass so far.
  std::int64_t steps() const { return steps_; }

  // All that it knows, shown to `items` (core/archive.hpp).
  template <class Items>
  void visit(Items& items) {
    items.fields("search.options", options_, Share::world);
    items.number("search.pieces", pieces_, Share::world);
    items.number("search.steps", steps_, Share::world);
    items.number("search.done", done_, Share::world);
    items.list("search.times", times_, {}, Share::world);
    items.list("search.probes", probes_, {}, Share::world);
  }

  // Called once after each step with `pieces()`, on all ranks with the same number: how long it took on the slowest rank. Does
  // nothing once the search is over.
  void add(Seconds seconds) {
    if (done_) return;
    ++steps_;
    times_.push_back(seconds);
    if (static_cast<int>(times_.size()) < options_.settling + options_.steps) return;
    auto const settling = static_cast<std::size_t>(options_.settling);
    probes_.push_back({pieces_, detail::median(times_.data() + settling, times_.size() - settling)});
    times_.clear();
    std::int64_t const next = static_cast<int>(probes_.size()) < options_.probes ? proposal() : 0;
    done_ = next == 0;
    pieces_ = done_ ? fastest() : next;
  }

 private:
  // Whether a number has been a probe.
  bool tried(std::int64_t pieces) const {
    return detail::any_of(probes_, [&](Probe const& probe) { return probe.pieces == pieces; });
  }
  // The nearest number within the bounds.
  std::int64_t within(std::int64_t pieces) const { return std::clamp(pieces, options_.least, options_.most); }
  // The pieces of the fastest probe.
  std::int64_t fastest() const {
    return std::min_element(probes_.begin(), probes_.end(),
                            [](Probe const& a, Probe const& b) { return a.seconds < b.seconds; })->pieces;
  }

  // The next number to try, or 0 where none is worth it.
  std::int64_t proposal() const {
    std::int64_t const first = probes_.front().pieces;
    for (std::int64_t const pieces : {within(4 * first), within((first + 3) / 4)})
      if (probes_.size() < 3 && !tried(pieces)) return pieces;
    std::int64_t const least = within(minimum());
    if (!tried(least)) return least;
    // The model is content; its neighbours may know better than the model.
    std::int64_t const best = fastest();
    for (std::int64_t const pieces : {within(2 * best), within((best + 1) / 2)})
      if (!tried(pieces) && !between_tried(pieces, best)) return pieces;
    return 0;
  }
  // Whether a number between these two was tried and was slower than the best, so that going on in this direction is idle.
  bool between_tried(std::int64_t pieces, std::int64_t best) const {
    return detail::any_of(probes_, [&](Probe const& probe) {
      return probe.pieces != best && (probe.pieces - best) * (probe.pieces - pieces) <= 0;
    });
  }

  // Where the model that fits best, by least squares of relative errors, has its minimum. Where the probes do not tell, the
  // fastest of them.
  std::int64_t minimum() const {
    double m[3][4] = {};
    for (Probe const& probe : probes_) {
      double const k = static_cast<double>(probe.pieces), weight = 1 / (probe.seconds * probe.seconds);
      double const row[4] = {1, 1 / k, k, probe.seconds};
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 4; ++j) m[i][j] += weight * row[i] * row[j];
    }
    for (int i = 0; i < 3; ++i) {  // Gauss and Jordan, the largest pivot first
      int pivot = i;
      for (int j = i + 1; j < 3; ++j)
        if (m[j][i] * m[j][i] > m[pivot][i] * m[pivot][i]) pivot = j;
      if (m[pivot][i] == 0) return fastest();
      for (int j = 0; j < 4; ++j) std::swap(m[i][j], m[pivot][j]);
      for (int r = 0; r < 3; ++r) {
        if (r == i) continue;
        double const factor = m[r][i] / m[i][i];
        for (int j = 0; j < 4; ++j) m[r][j] -= factor * m[i][j];
      }
    }
    double const b = m[1][3] / m[1][1], c = m[2][3] / m[2][2];
    if (b <= 0) return options_.least;
    if (c <= 0) return options_.most;
    return static_cast<std::int64_t>(std::min(detail::square_root(b / c) + 0.5, 9e15));
  }

  SearchOptions options_;
  std::int64_t pieces_, steps_ = 0;
  bool done_ = false;
  List<Seconds> times_;
  List<Probe> probes_;
};
// The search as states have it.
using PieceSearch = BasicPieceSearch<>;

}  // namespace parallax
