// Replay of passed steps by rows of the host's memory: their order, in full or at rest, and news to others of long work.
// TableRows of an optimizer with exact semantics has one.
#pragma once

#include <cstdint>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/variable/registration.hpp"

namespace parallax::inline v0_2 {

// Counts of the passed steps taken by rows, each row and step once, from the beginning on. Steps of rows with all slots 0 are
// not among them: nothing is done for those.
struct Replays {
  // The steps by the whole rule.
  std::int64_t full = 0;
  // The steps at rest: of slots alone.
  std::int64_t resting = 0;
};

// The place where the settling of old rows goes on, for the sake of the notes: all rows are brought up to the same step, a few
// at a time, and only then is this step the oldest one.
struct Sweep {
  // The steps of a window, settled at a time.
  static constexpr std::int64_t window = 256;
  // The most steps of rows in one step of the training.
  static constexpr std::int64_t most_swept = 4'096;

  // Returns the step to bring rows up to now, from `row` on: the last call's until all have reached it. `oldest`, `goal`: those
  // of OptimizerHistory.
  std::int64_t end(std::int64_t oldest, std::int64_t goal) {
    if (row == 0 || end_ <= oldest) row = 0, end_ = std::min(goal, oldest + window);
    return end_;
  }

  // Begins with the first row again, as other rows are here, or all have reached the step.
  void begin_again() { row = 0; }

  // The number of the first row short of this step.
  std::int64_t row = 0;

 private:
  std::int64_t end_ = 0;
};

// A member of a table that settles its rows. Refers to its listener only. `table`: the TableRows with this member; its
// `passed_` knows steps and rules, `slots_` the slots; `pass(row, rule)` takes a row through a step, `rests(row, rule)` returns
// true if the row rests in it. Rows are local ones, by number. All functions are local, and throw nothing.
class Replaying {
 public:
  // Returns the counts so far.
  Replays const& replays() const { return replays_; }
  // Sets the place, which outlives this, of the listener to long work: the one that stands there by then, or null for nobody.
  void tells(LongWork* const& whom) { tells_ = &whom; }
  // Notes that other rows are here, for sweeps.
  void begin_again() { sweep_.begin_again(); }

  // Brings rows row_at(0) … row_at(n - 1), which may repeat, up to step `last`, one after the other.
  template <class Table, class RowAt>
  void settle(Table& table, std::int64_t last, std::int64_t n, RowAt&& row_at) noexcept {
    auto& passed = table.passed_;
    untold_ = most_untold;
    std::int64_t oldest = last;
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t const row = row_at(i), settled = passed.of(row);
      if (settled >= last || stays(table, row, last)) continue;
      if (passed.rules().has(settled + 1)) replay(table, row, last, passed.rules().latest());
      else oldest = std::min(oldest, settled);
    }
    if (oldest < last) settle_old(table, oldest, last, n, row_at);
    if (told_) tell(false);
  }
  // Brings all rows up to step `last`.
  template <class Table>
  void settle_all(Table& table, std::int64_t last) noexcept {
    settle(table, last, table.local_rows(), [](std::int64_t i) { return i; });
    table.passed_.history().settled_to(last);
  }
  // Settles old rows, for the sake of the notes, from its last place on: a window of steps after the other, and no more steps
  // of rows than Sweep says. `last`: the last step that rows can be settled to at all.
  template <class Table>
  PARALLAX_COLD [[gnu::noinline]] void sweep(Table& table, std::int64_t last) noexcept {
    auto& passed = table.passed_;
    auto& rules = passed.rules();
    auto& history = passed.history();
    std::int64_t left = Sweep::most_swept, looks = most_looked_at;
    untold_ = left * table.width();  // it is short
    while (history.oldest() < history.goal()) {
      std::int64_t const end = sweep_.end(history.oldest(), history.goal());
      auto const these = rules.of(history, history.oldest() + 1, end);
      for (std::int64_t& row = sweep_.row; row < table.local_rows(); ++row) {
        if (--looks < 0) return;
        std::int64_t const settled = passed.of(row);
        if (settled >= end || stays(table, row, last)) continue;
        std::int64_t const until = std::min(end, settled + left);
        replay(table, row, until, these);
        left -= until - settled;
        if (until < end) return;
      }
      sweep_.begin_again();
      history.settled_to(end);
    }
  }

 private:
  // Settles rows, none older than step `oldest`, a window of steps after the other: its rules are made once for all rows.
  template <class Table, class RowAt>
  [[gnu::noinline]] void settle_old(Table& table, std::int64_t oldest, std::int64_t last, std::int64_t n,
                                    RowAt& row_at) noexcept {
    auto& passed = table.passed_;
    auto& rules = passed.rules();
    auto const bring = [&](std::int64_t step, auto const& these) {
      for (std::int64_t i = 0; i < n; ++i)
        if (std::int64_t const row = row_at(i); passed.of(row) < step) replay(table, row, step, these);
    };
    rules.recall(passed.history(), oldest + 1);
    while (oldest < last && oldest + 1 < rules.begin()) {
      std::int64_t const end = std::min({last, rules.begin() - 1, oldest + rules.window});
      bring(end, rules.of(passed.history(), oldest + 1, end));
      oldest = end;
    }
    bring(last, rules.latest());
  }
  // Returns true if the steps up to `last` change nothing of a row, as with all slots 0; then notes the row as of this step.
  template <class Table>
  static bool stays(Table& table, std::int64_t row, std::int64_t last) noexcept {
    auto& passed = table.passed_;
    if constexpr (Table::Passed::rests) {
      if (passed.of(row) < passed.rules().last_restless() || !table.slots_.blank(row)) return false;
      passed.of(row) = last;
      return true;
    } else {
      return false;
    }
  }
  // Takes a row that is not up to date through the steps up to `last`, by these rules.
  template <class Table, class Rules>
  void replay(Table& table, std::int64_t row, std::int64_t last, Rules const& rules) noexcept {
    auto& passed = table.passed_;
    std::int64_t& settled = passed.of(row);
    if ((untold_ -= (last - settled) * table.width()) < 0) tell(true);
    while (settled < last) {
      std::int64_t end = last;
      if constexpr (Table::Passed::rests) {
        auto const& next = rules[settled + 1];
        if (next.pace.reach >= 0 && table.rests(row, next.rule)) {
          std::int64_t const steps = rules.rest(settled, last);
          table.slots_.fade(row, next.rule, steps);
          replays_.resting += steps;
          settled += steps;
          continue;
        }
        end = std::min(last, settled + between_looks);
      }
      replays_.full += end - settled;
      while (settled < end) table.pass(row, rules[++settled].rule);
    }
  }
  // Tells the listener that work takes long and `goes_on`, or is over.
  PARALLAX_COLD [[gnu::noinline]] void tell(bool goes_on) noexcept {
    untold_ = most_untold;
    told_ = goes_on;
    if (tells_ && *tells_) (*tells_)->works(!goes_on);
  }

  // The number of whole steps before the next check for rest.
  static constexpr std::int64_t between_looks = 8;
  // The number of rows that a sweep looks at in one step.
  static constexpr std::int64_t most_looked_at = 16 * Sweep::most_swept;
  // The number of elements that take a step before somebody is told of it.
  static constexpr std::int64_t most_untold = std::int64_t{1} << 16;

  Replays replays_;
  Sweep sweep_;
  std::int64_t untold_ = most_untold;
  bool told_ = false;
  LongWork* const* tells_ = nullptr;
};

}  // namespace parallax
