// The rules of an optimizer's last steps in memory of a device: kernels take rows by them through the steps that have passed
// them by. PassedSteps of a device has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/variable/made_rules.hpp"
#include "parallax/detail/variable/optimizer_history.hpp"

namespace parallax::inline v0_2 {

// Owns a rule for each step with another rule than the step before, as only the device knows its rows' own steps. Each is made
// and sent once. Rules may take as many bytes as notes may, before rows are settled for their sake. All functions are local,
// and put work in the queue of `ops`.
template <class O, MemorySpace Space>
class RulesThere {
  using Ops = RowOps<Space>;
  using Rule = decltype(std::declval<O const&>().at(std::int64_t{1}));
  using Numbered = NumberedRule<Rule>;

 public:
  // Sends the missing rules of the steps up to `last`, by the notes of `history`. May throw std::bad_alloc, and Error (device,
  // out_of_memory); the next call goes on then.
  void know(Ops const& ops, OptimizerHistory<O> const& history, std::int64_t last) {
    if (known_ < last) {
      while (!missing_.empty() && missing_.back().step > known_) missing_.pop_back();  // there was no memory for more
      newest_.reserve(1);
      history.replay(known_ + 1, last, [&](std::int64_t step, Rule const& rule) { add(step, rule); });
    }
    if (!missing_.empty()) send(ops);
  }
  // Returns the rules as an argument of kernels: of all steps that rows here may be behind. Valid until the next `know`.
  KeptRules<Rule> kept() const { return {rules_.data() + begin_, static_cast<std::int64_t>(steps_.size()), restless_}; }
  // Returns the step up to which rows are to be settled, so that rules stay within their bytes; 0 if they do.
  std::int64_t goal() const { return steps_.size() >= most_rules ? steps_[most_rules / 2] - 1 : 0; }
  // Notes that from now on no row here is as of an earlier step than this: the rules up to it are not needed.
  void settled_to(std::int64_t step) {
    std::size_t gone = 0;
    while (gone + 1 + missing_.size() < steps_.size() && steps_[gone + 1] <= step + 1) ++gone;
    steps_.drop(0, gone);
    begin_ += gone;
  }
  // Goes on after an archive has given back rows as of step `least` or later: their rules are made anew.
  void restored(std::int64_t least) {
    steps_.clear(), missing_.clear(), newest_.clear();
    begin_ = 0;
    known_ = restless_ = least;
  }

 private:
  static constexpr std::size_t most_rules = std::max<std::size_t>(most_note_bytes<O> / sizeof(Numbered), 4), first_room = 1024,
                               most_put = 256;

  // Takes the rule of the step behind the last one, unless it is the same rule. May throw std::bad_alloc.
  void add(std::int64_t step, Rule const& rule) {
    MadeRule<Rule> const made{rule};
    bool same = false;
    Rest rest = Rest::never;
    if constexpr (MadeRule<Rule>::rests)
      if (made.pace.reach >= 0) rest = Rest::looks;
    if (!newest_.empty()) {
      auto const& before = newest_.front();
      if constexpr (MadeRule<Rule>::rests)
        if (rest == Rest::looks && before.pace.reach >= 0 && rule.alike(before.rule) &&
            made.pace.fall * made.pace.reach <= before.pace.reach)
          rest = Rest::goes_on;
      same = rest != Rest::looks && std::memcmp(&rule, &before.rule, sizeof rule) == 0;
    }
    if (!same) missing_.push_back({step, rule, rest}), steps_.push_back(step);
    newest_.clear();
    newest_.push_back(made);
    if (rest == Rest::never) restless_ = step;
    known_ = step;
  }
  // Sends the missing rules: a few in the arguments of kernels, many by a copy. Throws as `know`.
  void send(Ops const& ops) {
    std::size_t const more = missing_.size(), live = steps_.size() - more;
    if (begin_ + live + more > rules_.size()) {
      Numbered const* const from = rules_.data() + begin_;  // kept by a buffer that has grown
      if (2 * (live + more) > rules_.size()) rules_.resize(std::max(first_room, 4 * (live + more)));
      if (live > 0) ops.copy_bytes(rules_.data(), from, live * sizeof(Numbered));  // to a place without rules
      begin_ = 0;
    }
    Numbered* const to = rules_.data() + begin_ + live;
    if (more <= most_put) ops.put(to, missing_.data(), more);
    else ops.from_host(to, missing_.data(), more);
    missing_.clear();
  }

  Buffer<Numbered, Space> rules_;
  std::size_t begin_ = 0;                  // the first needed one of them
  List<std::int64_t> steps_;               // the first steps of the rules from there on
  List<Numbered> missing_;                 // the last of these, on their way
  List<MadeRule<Rule>> newest_;            // one, of step `known_`
  std::int64_t known_ = 0, restless_ = 0;  // the last step with its rule made, and the last one in which no row rests
};

}  // namespace parallax
