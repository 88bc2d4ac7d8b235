// The steps that have passed rows of a table by: as of which step each row is, and by which rules it takes those since then. TableRows
// of an optimizer with exact semantics has one, and asks it before rows are read or moved.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/list.hpp"
#include "parallax/kernel/row_ops.hpp"
#include "parallax/memory/buffer.hpp"
#include "parallax/optimizer/optimizer.hpp"
#include "parallax/variable/extent.hpp"
#include "parallax/variable/made_rules.hpp"
#include "parallax/variable/optimizer_history.hpp"

namespace parallax {

// Owns. On the host rules are made once a step, and kept for rows that are behind. On a device those of the last steps are kept
// in its own memory: a row that stays behind for longer takes its steps with all others. All functions are local; on a device
// they put work in the queue of `ops`.
template <Optimizer O, MemorySpace Space>
class PassedSteps {
  using Ops = RowOps<Space>;
  using Rule = decltype(std::declval<O const&>().at(std::int64_t{1}));
  static constexpr bool on_host = Space::host_readable;

 public:
  // A rule as a device finds it.
  using Numbered = NumberedRule<Rule>;
  // A flag: rows may rest.
  static constexpr bool rests = on_host && MadeRule<Rule>::rests;

  // Rows that no step has passed by, and the settings of the first one.
  PassedSteps(Ops const& ops, std::size_t rows, O const& optimizer) : settled_{rows} {
    ops.fill(settled_.data(), rows, std::int64_t{0});
    history_.note(1, optimizer);
  }

  // Notes the settings of the step that may be taken next, and its rule. False on a device that keeps no rules of so many
  // steps: then all rows are settled first, and this is called again.
  bool note(std::int64_t step, O const& optimizer, Rule const& rule) {
    if constexpr (!on_host)
      if (step - history_.oldest() > There::kept) return false;
    if (!history_.last_is(optimizer)) history_.note(step, optimizer);
    if constexpr (on_host) there_.put(step, rule);
    return true;
  }
  // Returns the notes of settings, by which old rows are settled.
  OptimizerHistory<O>& history() { return history_; }

  // In memory of the host: the last step that has moved a row.
  std::int64_t& of(std::int64_t row) { return settled_[static_cast<std::size_t>(row)]; }
  // Returns the rules of steps there.
  MadeRules<O>& rules() { return there_; }

  // On a device: what settle_rows and its kin are told, of rows from `first` on, to be brought up to step `last`. `next`, `updates`: see
  // device::RowAges. Puts the rules there that are missing; none are while a step is captured, if this was called for its session's
  // last step before.
  auto ages(Ops const& ops, std::int64_t first, std::int64_t last, Numbered const* next, bool updates) {
    know(ops, last);
    return typename Ops::template Ages<Rule>{settled_.data() + first, there_.rules.data(), last, next, updates};
  }
  // Likewise: puts the rules there of all steps up to `last`.
  void know(Ops const& ops, std::int64_t last) {
    if (there_.known >= last) return;
    if (there_.rules.empty()) there_.rules.resize(There::kept);
    auto const place = [](std::int64_t step) { return static_cast<std::size_t>(step % There::kept); };
    auto const put = [&] {
      if (!there_.missing.empty())
        ops.put(there_.rules.data() + place(there_.missing.front().step), there_.missing.data(), there_.missing.size());
      there_.missing.clear();
    };
    history_.replay(there_.known + 1, last, [&](std::int64_t step, Rule const& rule) {
      if (place(step) == 0) put();
      there_.missing.push_back({step, rule});
    });
    put();
    there_.known = last;
  }
  // Likewise: all rows are as of this step at least.
  void all_settled(std::int64_t step) { history_.settled_to(step); }
  // Up to which step all rows can be brought at once, where the last one is `last`.
  std::int64_t at_once(std::int64_t last) const { return std::min(last, history_.oldest() + There::kept); }

  // Other rows are here, all as of step `settled`; `room` is for their numbers.
  void enter(Ops const& ops, Buffer<std::int64_t, Space>&& room, std::int64_t settled) {
    settled_ = std::move(room);
    ops.fill(settled_.data(), settled_.size(), settled);
    all_settled(settled);
  }

  // Shows an archive all of it, of a variable that has taken `last` steps. Where steps were read that it cannot have: an Error
  // (mismatch).
  template <class A>
  void visit(Items<A>& items, Ops const& ops, Extent const& extent, std::int64_t last) {
    visit_rows(items, ops, "settled", settled_.data(), 1, extent);
    std::int64_t least = on_host || A::reads ? last : history_.oldest(), most = 0;
    auto const look = [&](std::span<std::int64_t const> steps) {
      for (std::int64_t const step : steps) least = std::min(least, step), most = std::max(most, step);
    };
    if constexpr (on_host) {
      look(settled_.span());
    } else if constexpr (A::reads) {
      Buffer<std::int64_t> here{settled_.size()};
      ops.to_host(here.data(), settled_.data(), here.size());
      look(here.span());
    }
    if (least < 0 || most > last) throw item_error(items.variable(), "settled", "its steps are not those of the variable");
    history_.visit(items, least, last);
    if constexpr (A::reads) {
      if constexpr (on_host) there_.restored(history_, least, last);
      else there_.known = least;
    }
  }

 private:
  // What a device has, and what is known of it.
  struct There {
    static constexpr std::int64_t kept = Ops::template Ages<Rule>::kept;
    Buffer<Numbered, Space> rules;  // of step s at s % kept
    std::int64_t known = 0;         // rules up to this step are there, of as many as are kept
    List<Numbered> missing;         // on their way
  };

  Buffer<std::int64_t, Space> settled_;  // by row: the last step that has moved it
  OptimizerHistory<O> history_;
  std::conditional_t<on_host, MadeRules<O>, There> there_;
};

}  // namespace parallax
