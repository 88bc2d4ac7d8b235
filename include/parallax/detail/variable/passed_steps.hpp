// The steps that have passed rows of a table by: each row's own step, and the rules of the steps since then. TableRows of an
// optimizer with exact semantics has one, and asks it before rows are read or moved.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/variable/extent.hpp"
#include "parallax/detail/variable/made_rules.hpp"
#include "parallax/detail/variable/optimizer_history.hpp"
#include "parallax/detail/variable/rules_there.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

// Owns. Rules are made once a step, and kept for rows that are behind; on a device in its own memory. All functions are local;
// on a device they put work in the queue of `ops`.
template <Optimizer O, MemorySpace Space>
class PassedSteps {
  using Ops = RowOps<Space>;
  using Rule = decltype(std::declval<O const&>().at(std::int64_t{1}));
  static constexpr bool on_host = Space::host_readable;

 public:
  // A step as the graph of a device finds it.
  using Launched = LaunchedStep<Rule>;
  // A flag: rows may rest.
  static constexpr bool rests = on_host && MadeRule<Rule>::rests;

  // Begins with rows that no step has passed by, and with the settings of the first step. May throw std::bad_alloc.
  PassedSteps(Ops const& ops, std::size_t rows, O const& optimizer) : settled_{rows} {
    ops.fill(settled_.data(), rows, std::int64_t{0});
    history_.note(1, optimizer);
  }

  // Notes the settings of the next possible step, and its rule. May throw std::bad_alloc.
  void note(std::int64_t step, O const& optimizer, [[maybe_unused]] Rule const& rule) {
    if (!history_.last_is(optimizer)) history_.note(step, optimizer);
    if constexpr (on_host) rules_.put(step, rule);
  }
  // Returns the notes of settings, by which old rows are settled. Valid as long as this, as `rules`.
  OptimizerHistory<O>& history() { return history_; }
  // Returns the step up to which rows are to be settled, for the sake of notes, or of a device's rules.
  std::int64_t goal() const {
    if constexpr (on_host) return history_.goal();
    else return std::max(history_.goal(), rules_.goal());
  }
  // Notes that from now on no row here is as of an earlier step than this.
  void settled_to(std::int64_t step) {
    history_.settled_to(step);
    if constexpr (!on_host) rules_.settled_to(step);
  }

  // Returns the last step that has moved a local row, in memory of the host, to be read and set.
  std::int64_t& of(std::int64_t row) { return settled_[static_cast<std::size_t>(row)]; }
  // Returns the rules of steps, of rows in memory of the host.
  MadeRules<O>& rules() { return rules_; }

  // Returns the arguments of settle_rows and its kin on a device, for rows from `first` on, to be brought up to step `last`.
  // `next`, `updates`: see device::RowAges. Puts missing rules there; none are missing during a capture, if this was called
  // before for the last step of its session.
  auto ages(Ops const& ops, std::int64_t first, std::int64_t last, Launched const* next, bool updates) {
    know(ops, last);
    return typename Ops::template Ages<Rule>{settled_.data() + first, rules_.kept(), last, next, updates};
  }
  // Puts missing rules of all steps up to `last` in the device's memory; throws as RulesThere::know.
  void know(Ops const& ops, std::int64_t last) { rules_.know(ops, history_, last); }
  // Returns, on a device, the arguments of a graph whose step has this number and rule.
  Launched launched(std::int64_t step, Rule const& rule) const { return {{step, rule}, rules_.kept()}; }

  // Enters other rows, all as of step `settled`, in place of those here; takes `room`, an entry for the step of each.
  void enter(Ops const& ops, Buffer<std::int64_t, Space>&& room, std::int64_t settled) {
    settled_ = std::move(room);
    ops.fill(settled_.data(), settled_.size(), settled);
    settled_to(settled);
  }

  // Shows an archive the steps and the notes, of a variable with `last` steps taken. Throws the archive's errors, and Error
  // (mismatch) if steps were read that it cannot have.
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
      if constexpr (on_host) rules_.restored(history_, least, last);
      else rules_.restored(least);
    }
  }

 private:
  Buffer<std::int64_t, Space> settled_;  // by row: the last step that has moved it
  OptimizerHistory<O> history_;
  std::conditional_t<on_host, MadeRules<O>, RulesThere<O, Space>> rules_;
};

}  // namespace parallax
