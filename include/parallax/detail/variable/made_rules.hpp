// The rules of the last steps of an optimizer, each made once. By them rows of the host's memory take the steps that have
// passed them by. PassedSteps has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/optimizer/resting.hpp"
#include "parallax/detail/variable/optimizer_history.hpp"

namespace parallax::inline v0_2 {

// The rule of a step, and its pace if rows may rest.
template <class Rule>
struct MadeRule {
  // A flag: rules of the type let rows rest at all.
  static constexpr bool rests = requires(Rule const& rule) { rule.pace(); };

  // Takes a rule.
  explicit MadeRule(Rule const& made) : rule{made} {
    if constexpr (rests) pace = rule.pace();
  }

  // As the optimizer's `at` returned it.
  Rule rule;
  // As `rule.pace()` returned it.
  Pace pace;
};

// Rules of neighbouring steps, found by the number of the step. Refers to the rules of MadeRules.
template <class Rule>
struct RulesOfSteps {
  // The rules: the one of step s is number s & mask.
  MadeRule<Rule> const* made;
  // The number of rules, a power of two, less 1.
  std::size_t mask;

  // Returns the rule of a step that has one here.
  MadeRule<Rule> const& operator[](std::int64_t step) const { return made[static_cast<std::size_t>(step) & mask]; }

  // Returns the number of steps after `settled`, up to `last`, in which a row rests if it rests in the first of them.
  std::int64_t rest(std::int64_t settled, std::int64_t last) const {
    auto const& first = (*this)[settled + 1];
    double left = 1;
    std::int64_t step = settled + 2;
    for (; step <= last; ++step) {
      auto const& next = (*this)[step];
      if (next.pace.reach < 0 || !next.rule.alike(first.rule)) break;
      left = std::max(left * next.pace.fall, 1e-200);
      if (!(left * next.pace.reach <= first.pace.reach)) break;
    }
    return step - 1 - settled;
  }
};

// Owns. The rules of the last steps, as many as rows were behind so far, up to `most_kept`. For earlier steps a window of rules
// is made again whenever rows want them. All functions are local.
template <class O>
class MadeRules {
  using Rule = decltype(std::declval<O const&>().at(std::int64_t{1}));
  static_assert(std::is_trivially_copyable_v<Rule>,
                "parallax: the rule of an exact optimizer is trivially copyable, for it is kept");

 public:
  // The most rules of a window.
  static constexpr std::int64_t window = 256;

  MadeRules() : kept_{window}, window_{window} {}

  // Keeps the rule of a step: the one behind the last, or the last once more. May throw std::bad_alloc.
  void put(std::int64_t step, Rule const& rule) {
    auto const size = static_cast<std::int64_t>(kept_.size());
    if (step > end_) begin_ = step;
    else if (step - begin_ == size && wanted_ > size && size < most_kept) grow();
    begin_ = std::max(begin_, step + 1 - static_cast<std::int64_t>(kept_.size()));
    end_ = step + 1;
    note_pace(step, put(kept_, step, rule).pace);
  }
  // Returns true if the rules of this step and of all later ones are here. If not, `put` makes room for as many, by and by.
  bool has(std::int64_t step) {
    if (step >= begin_) return true;
    wanted_ = std::max(wanted_, end_ - step);
    return false;
  }
  // Fills free room with the rules of earlier steps, down to `least` or to the end of the room, by the notes of `history`.
  void recall(OptimizerHistory<O> const& history, std::int64_t least) {
    std::int64_t const first = std::max(least, end_ - static_cast<std::int64_t>(kept_.size()));
    if (first < begin_) {
      history.replay(first, begin_ - 1, [&](std::int64_t at, Rule const& rule) { put(kept_, at, rule); });
      begin_ = first;
    }
  }
  // Returns the first step with its rule here.
  std::int64_t begin() const { return begin_; }
  // Returns the rules from `begin()` on; valid until the next `put` or `recall`.
  RulesOfSteps<Rule> latest() const { return {kept_.data(), kept_.size() - 1}; }
  // Returns the rules of steps `first` up to `last`, at most `window` of them, made anew if need be. Valid until the next call.
  RulesOfSteps<Rule> of(OptimizerHistory<O> const& history, std::int64_t first, std::int64_t last) {
    if (first < window_first_ || last > window_last_) {
      history.replay(first, last, [&](std::int64_t step, Rule const& rule) { put(window_, step, rule); });
      window_first_ = first, window_last_ = last;
    }
    return {window_.data(), window_.size() - 1};
  }

  // Returns the last step in which no row rests, whatever its slots are.
  std::int64_t last_restless() const { return last_restless_; }
  // Goes on after `last` steps given back by an archive, with no rows as of a step before `least`.
  void restored(OptimizerHistory<O> const& history, std::int64_t least, std::int64_t last) {
    begin_ = end_ = last + 1;
    window_first_ = 0, window_last_ = -1;
    last_restless_ = least;
    if constexpr (MadeRule<Rule>::rests)
      history.replay(least + 1, last, [&](std::int64_t step, Rule const& rule) { note_pace(step, rule.pace()); });
  }

 private:
  static constexpr std::int64_t most_kept = 65'536;

  // Puts a rule as number `step` modulo the size, a power of two.
  static MadeRule<Rule>& put(Buffer<MadeRule<Rule>>& rules, std::int64_t step, Rule const& rule) {
    return *new (&rules[static_cast<std::size_t>(step) & (rules.size() - 1)]) MadeRule<Rule>{rule};
  }
  void note_pace(std::int64_t step, Pace const& pace) {
    if (pace.reach < 0) last_restless_ = step;
  }
  // Takes twice the room, with other places for the rules.
  void grow() {
    Buffer<MadeRule<Rule>> more{2 * kept_.size()};
    for (std::int64_t step = begin_; step < end_; ++step) put(more, step, latest()[step].rule);
    kept_ = std::move(more);
  }

  Buffer<MadeRule<Rule>> kept_, window_;
  std::int64_t begin_ = 1, end_ = 1;  // of the kept rules
  std::int64_t wanted_ = 0;           // rules, at once
  std::int64_t window_first_ = 0, window_last_ = -1, last_restless_ = 0;
};

}  // namespace parallax
