// The search for a number of pieces: timed steps under a few numbers, and a model for the number of least time.
// `Session::search_pieces` begins one for a variable under Auto, and each step adds its time.
#pragma once

#include <cstdint>

#include "parallax/core/archive.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/math.hpp"

namespace parallax::inline v0_2 {

// The bounds of a search: numbers of pieces from `least` to `most`, at most `probes` of them tried, each for `steps` steps,
// after `settling` uncounted ones. most 0: eight times the first number.
struct SearchOptions {
  std::int64_t least = 1,  // the least number to try
      most = 0;            // the most; 0: eight times the first number
  int probes = 6,          // numbers to try at most
      steps = 12,          // counted steps with each number
      settling = 2;        // uncounted steps before them
};

// Searches the K of the least t(K) = a + b / K + c · K: the model of Parallax (Kim et al., EuroSys 2019, section 3.2). The
// first probes are the number in force, four times and a quarter of it; each further one lies at the minimum of the model,
// fitted to all probes, until it was tried before. The winner is the fastest tried number. Its numbers depend on the added
// seconds alone: ranks agree if they add equal ones.
template <class Seconds = double>
class BasicPieceSearch {
 public:
  // A tried number.
  struct Probe {
    // Number of pieces.
    std::int64_t pieces;
    // Time of a step with it: the median.
    Seconds seconds;
  };

  // Begins with `first` pieces, the number in force, at least 1.
  BasicPieceSearch(std::int64_t first, SearchOptions const& options) : options_{options}, pieces_{first} {
    if (options_.most < 1) options_.most = 8 * first;
    options_.least = std::clamp<std::int64_t>(options_.least, 1, options_.most);
  }

  // Returns the number of pieces for the next step.
  std::int64_t pieces() const { return pieces_; }
  // Returns true if the search is over: `pieces` is then the winner.
  bool done() const { return done_; }
  // Returns the probes so far, in their order: a view, valid until the next `add` or `visit`.
  Slice<Probe const> probes() const { return probes_; }
  // Returns the number of steps so far, counted or let pass.
  std::int64_t steps() const { return steps_; }

  // Shows its whole state to `items` (core/archive.hpp).
  template <class Items>
  void visit(Items& items) {
    items.fields("search.options", options_, Share::world);
    items.number("search.pieces", pieces_, Share::world);
    items.number("search.steps", steps_, Share::world);
    items.number("search.done", done_, Share::world);
    items.list("search.times", times_, {}, Share::world);
    items.list("search.probes", probes_, {}, Share::world);
  }

  // Adds a step with `pieces()`: its seconds on the slowest rank. Local; called after each step, on all ranks with the same
  // number. Does nothing once the search is over.
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
  // Returns true if a number has been a probe.
  bool tried(std::int64_t pieces) const {
    return detail::any_of(probes_, [&](Probe const& probe) { return probe.pieces == pieces; });
  }
  // Returns the nearest number within the bounds.
  std::int64_t within(std::int64_t pieces) const { return std::clamp(pieces, options_.least, options_.most); }
  // Returns the pieces of the fastest probe.
  std::int64_t fastest() const {
    return std::min_element(probes_.begin(), probes_.end(),
                            [](Probe const& a, Probe const& b) { return a.seconds < b.seconds; })->pieces;
  }

  // Returns the next number to try, or 0 if none is worth it.
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
  // Returns true if a number between these two was tried and was slower than the best, so that going on in this direction is
  // idle.
  bool between_tried(std::int64_t pieces, std::int64_t best) const {
    return detail::any_of(probes_, [&](Probe const& probe) {
      return probe.pieces != best && (probe.pieces - best) * (probe.pieces - pieces) <= 0;
    });
  }

  // Returns the minimum of the model that fits best, by least squares of relative errors. If the probes do not tell, the
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
// The search of variables' states.
using PieceSearch = BasicPieceSearch<>;

}  // namespace parallax
