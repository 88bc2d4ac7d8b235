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
#include "parallax/variable/optimizer_history.hpp"

namespace parallax {

// Owns. On the host rules are made of the optimizer's settings when a row takes its steps. A device finds them in its own memory, where
// those of the last steps are kept: a row that stays behind for longer takes its steps with all others. All functions are local; on a
// device they put work in the queue of `ops`.
template <Optimizer O, MemorySpace Space>
class PassedSteps {
  using Ops = RowOps<Space>;
  using Rule = decltype(std::declval<O const&>().at(std::int64_t{1}));
  static constexpr bool on_host = Space::host_readable;

 public:
  // A rule as a device finds it.
  using Numbered = NumberedRule<Rule>;

  // Rows that no step has passed by, and the settings of the first one.
  PassedSteps(Ops const& ops, std::size_t rows, O const& optimizer) : settled_{rows} {
    ops.fill(settled_.data(), rows, std::int64_t{0});
    history_.note(1, optimizer);
  }

  // The settings of a step that may be taken next. False where there is no room for them: then all rows are settled first, and `forget`
  // is called.
  bool note(std::int64_t step, O const& optimizer) {
    if constexpr (!on_host)
      if (step - there_.oldest > There::kept) return false;
    if (history_.last_is(optimizer)) return true;
    if (history_.full()) return false;
    history_.note(step, optimizer);
    return true;
  }
  // All rows are settled: the settings of earlier steps are needed no more.
  void forget() { history_.forget(); }

  // In memory of the host: the last step that has moved a row.
  std::int64_t& of(std::int64_t row) { return settled_[static_cast<std::size_t>(row)]; }
  // Calls f(step, rule) for the steps after `settled` up to `last`.
  template <class F>
  void replay(std::int64_t settled, std::int64_t last, F&& f) const {
    history_.replay(settled, last, f);
  }

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
    history_.replay(there_.known, last, [&](std::int64_t step, Rule const& rule) {
      if (place(step) == 0) put();
      there_.missing.push_back({step, rule});
    });
    put();
    there_.known = last;
  }
  // Likewise: all rows are as of this step at least.
  void all_settled(std::int64_t step) { there_.oldest = step; }
  // Up to which step all rows can be brought at once, where the last one is `last`.
  std::int64_t at_once(std::int64_t last) const { return std::min(last, there_.oldest + There::kept); }

  // Other rows are here, all as of step `settled`; `room` is for their numbers.
  void enter(Ops const& ops, Buffer<std::int64_t, Space>&& room, std::int64_t settled) {
    settled_ = std::move(room);
    ops.fill(settled_.data(), settled_.size(), settled);
    if constexpr (!on_host) all_settled(settled);
  }

  // Shows an archive all of it, of a variable that has taken `last` steps. Where steps were read that it cannot have: an Error
  // (mismatch).
  template <class A>
  void visit(Items<A>& items, Ops const& ops, Extent const& extent, std::int64_t last) {
    visit_rows(items, ops, "settled", settled_.data(), 1, extent);
    std::int64_t least = last, most = 0;
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
    if constexpr (!on_host && A::reads) there_.oldest = there_.known = least;
  }

 private:
  struct Nothing {};
  // What a device has, and what is known of it.
  struct There {
    static constexpr std::int64_t kept = [] {
      if constexpr (on_host) return 0;
      else return Ops::template Ages<Rule>::kept;
    }();
    Buffer<Numbered, Space> rules;  // of step s at s % kept
    std::int64_t known = 0;         // rules up to this step are there, of as many as are kept
    std::int64_t oldest = 0;        // no row is as of an earlier one
    List<Numbered> missing;         // on their way
  };

  Buffer<std::int64_t, Space> settled_;  // by row: the last step that has moved it
  OptimizerHistory<O> history_;
  std::conditional_t<on_host, Nothing, There> there_;
};

}  // namespace parallax
