// What the journeys of sparse gradients have in common: a policy derives from it, and the update of a sparse variable sends it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/detail/policy/journey/batch.hpp"
#include "parallax/detail/policy/journey/legs.hpp"

namespace parallax::inline v0_2 {

// What the journeys of sparse gradients share: the plan, the rows, and the result. A policy derives its own from it, and adds:
//   prepare()                 local: after `begin`
//   asks(), tell(f), hear(f)  whether a number rides in the ranks' agreement; f(rank, count) to tell it, f(rank) to hear it
//   next, write, read         its legs (see `carry`)
//   reduce()                  local, after arrival: calls `sum_by` or `keep`
// and says in constants what is not as here.
template <class Index, class T, MemorySpace Space>
class RowJourney {
 public:
  // The plan by which rows travel: that of a pull, or one made of the ids that the update brings.
  using Plan = RowPlan<Index, Space>;
  // What sums rows in memory of the space.
  using Ops = RowOps<Space>;

  static constexpr bool gathers = false;           // every rank ends with all rows of the sum, and not with those it owns
  static constexpr bool every_occurrence = false;  // rows travel one for each index, not summed before

  // Local, by the way's `prepare`. `own` are this rank's rows, whose memory must stay until the journey has arrived; `bases`
  // the first keys of owners; `rows` the bound of the keys. `counted`: how many indices named a row travels along. `in_place`:
  // ranks may read each other's rows where they lie, the same on every rank.
  void begin(Ops const& ops, Plan& plan, OwnRows<T> own, std::span<Index const> bases, std::int64_t rows, bool counted,
             bool in_place) {
    ops_.emplace(ops);
    plan_ = &plan;
    own_ = own;
    bases_ = bases;
    rows_ = rows;
    counted_ = counted;
    in_place_ = in_place;
    hop_ = 0;
    finished_ = false;
    known_ = plan.agreed > 0;
    by_ = nullptr;
  }

  // True: numbers ride in the agreement, unless a journey hides this with its own.
  bool asks() const { return true; }
  // Nothing: a journey with legs of its own resets them here.
  void prepare() {}

  // The plan of this update, from `begin` until the update is closed.
  Plan& plan() const { return *plan_; }
  bool known() const { return known_; }  // whether a pull of the same plan has told its runs, at the outset
  // What this rank ends with: distinct keys and the sum of each one's rows. After `reduce`. On a device without rows as long as
  // the sums are put off: what updates the table may make them as it needs them, of the rows that arrived, `addends`, by
  // `groups`.
  ReducedRows<Index, T, Space> const& reduced() const { return reduced_; }
  // Whether the sums are not made yet: on a device, from `sum_by` to `sum_up`.
  bool puts_off() const { return by_ != nullptr; }
  // The rows that arrived, in memory of the space, source after source.
  RowsView<T const> addends() const { return {arrived_.first(), reduced_count_, own_.values.width}; }
  // Which of them make up each sum. Only while sums are put off.
  Groups<Index, Space>& groups() const { return *by_; }
  // Local. Makes the sums if they are put off: their rows are needed at once. A device has no less of them than keys; those that
  // no key has are zeros, so that the host need not know how many there are.
  void sum_up() {
    if (!by_) return;
    std::size_t const most = by_->most();
    sums_.resize_with_slack(most * static_cast<std::size_t>(own_.values.width));
    ops().coalesce(addends(), by_->there(ops()), 0, most, sums_.data());
    reduced_.rows = sums_.data();
    by_ = nullptr;
  }

  // The counts of hop 0: how many keys of the plan go to each rank.
  template <class Tell>
  void tell(Tell&& tell) const {
    tell_plan(*plan_, tell);
  }
  // What other ranks have told: how many keys come from each of them on hop 0.
  template <class Told>
  void hear(Told&& told) {
    hear_plan(*plan_, told);
  }

 protected:
  // Elements of a row.
  std::int64_t width() const { return own_.values.width; }
  // Bytes of a row in memory, whatever the wire makes of it.
  std::size_t row_bytes() const { return static_cast<std::size_t>(own_.values.width) * sizeof(T); }

  // Of the variable's queue, from `begin` on.
  Ops const& ops() const { return *ops_; }

  // Sums what arrived by `groups`, which must stay, on a device not yet.
  void sum_by(Groups<Index, Space>& groups) {
    by_ = &groups;
    reduced_count_ = static_cast<std::int64_t>(groups.count());
    reduced_ = {groups.named(), nullptr, nullptr};
    if constexpr (Space::host_readable) sum_up();
    sum_counts(groups);
  }
  // Sums what ranks lend, each the rows of its run of the keys that were grouped.
  void sum_lent(std::span<LentRows<T> const> ranks, std::span<std::size_t const> begins, Groups<Index, Space>& groups) {
    sums_.resize_with_slack(groups.size() * static_cast<std::size_t>(width()));
    RowOps<HostSpace>::coalesce_lent(ranks, begins, groups, width(), sums_.data());
    reduced_ = {groups.named(), sums_.data(), nullptr};
    sum_counts(groups);
  }
  // Sums how many indices named each key, of the counts that arrived. Nothing where rows are not counted.
  void sum_counts(Groups<Index, Space>& groups) {
    if (!counted_) return;
    std::size_t const most = groups.most();
    count_sums_.resize_with_slack(most);
    ops().sum_counts(arrived_.count_span(), groups.there(ops()), 0, most, count_sums_.data());
    reduced_.counts = count_sums_.data();
  }

  // What arrived is the result: distinct keys in order already.
  void keep(typename Groups<Index, Space>::Keys keys) {
    reduced_ = {keys, reinterpret_cast<T*>(arrived_.rows.data()), counted_ ? arrived_.count_span().data() : nullptr};
  }

  // Row operations by the variable's queue, given by `begin`.
  std::optional<Ops> ops_;
  // Not owned. Its levels are filled as keys arrive.
  Plan* plan_ = nullptr;
  // This rank's rows [rows x width], for an index, a distinct index or a bag each.
  OwnRows<T> own_;
  // The first key of every owner, and the end.
  std::span<Index const> bases_;
  // Rows of the table, the bound of its keys.
  std::int64_t rows_ = 0;
  bool counted_ = false,  // how many indices named a row travels along
      in_place_ = false,  // ranks may read each other's rows where they lie
      finished_ = true,   // set by the journey's `read` on its last leg
      known_ = false;     // whether the runs of hop 0 were agreed before, by a pull
  // The hop of the next leg; the journey's own `read` counts on.
  std::size_t hop_ = 0;
  // What came in over the last hop, and then the addends of the sums.
  ArrivedRows<T, Space> arrived_;
  // The rows of `reduced_`, where they had to be summed.
  Buffer<T, Space> sums_;
  // The counts of `reduced_`, where rows are counted.
  Buffer<std::uint32_t, Space> count_sums_;
  // Refers to the plan's or the journey's keys, and to the sums; valid until the next `begin`.
  ReducedRows<Index, T, Space> reduced_;
  std::int64_t reduced_count_ = 0;  // of what they are the sums
  // The groups of sums that are put off, else null.
  Groups<Index, Space>* by_ = nullptr;
};

}  // namespace parallax
