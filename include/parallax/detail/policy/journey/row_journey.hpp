// The base of the journeys of sparse gradients: a policy derives from it, and the update of a sparse variable sends it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "parallax/detail/policy/journey/batch.hpp"
#include "parallax/detail/policy/journey/legs.hpp"

namespace parallax::inline v0_2 {

// Shared parts of the journeys of sparse gradients: the plan, the rows, and the result. A policy derives its own from it, and
// adds:
//   prepare()                 local: after `begin`
//   asks(), tell(f), hear(f)  true if a number rides in the ranks' agreement; f(rank, count) to tell it, f(rank) to hear it
//   next, write, read         its legs (see `carry`)
//   reduce()                  local, after arrival: calls `sum_by` or `keep`
// and hides constants that differ.
template <class Index, class T, MemorySpace Space>
class RowJourney {
 public:
  // The plan of travelling rows: a pull's, or one made of the ids of the update.
  using Plan = RowPlan<Index, Space>;
  // Operations that sum rows in memory of the space.
  using Ops = RowOps<Space>;

  static constexpr bool gathers = false;           // every rank ends with all rows of the sum, not with its own only
  static constexpr bool every_occurrence = false;  // rows travel one for each index, not summed before

  // Begins the journey. Local, by the way's `prepare`. `own` are this rank's rows, whose memory must stay until the journey has
  // arrived, or, lent, until the commit; `bases` the first keys of owners; `rows` the bound of the keys. `counted`: the number
  // of indices of a row travels along. `in_place`: ranks may read each other's rows in place, the same on every rank.
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

  // Returns true: the numbers of `tell` ride in the agreement, unless a journey hides this with its own.
  bool asks() const { return true; }
  // Does nothing: a journey with legs of its own resets them here.
  void prepare() {}

  // Returns the plan of this update, from `begin` until the update is closed.
  Plan& plan() const { return *plan_; }
  bool known() const { return known_; }  // true if a pull of the same plan has told its runs, at the outset
  // Returns this rank's result: distinct keys and the sum of each one's rows. Valid from `reduce` to the next `begin`. On a
  // device it has no rows as long as the sums are put off: the table's update may make them, of `addends` by `groups`.
  ReducedRows<Index, T, Space> const& reduced() const { return reduced_; }
  // Returns true if the sums are not made yet: on a device, from `sum_by` to `sum_up`.
  bool puts_off() const { return by_ != nullptr; }
  // Returns the arrived rows, in memory of the space, source after source; this object's, until the next leg arrives.
  RowsView<T const> addends() const { return {arrived_.first(), reduced_count_, own_.values.width}; }
  // Returns the groups of the arrived rows that make up each sum. Only while sums are put off.
  Groups<Index, Space>& groups() const { return *by_; }
  // Makes the sums if they are put off, local: their rows are needed at once. A device makes no fewer sums than keys; sums
  // without a key are zeros, so that the host need not know their number.
  void sum_up() {
    if (!by_) return;
    std::size_t const most = by_->most();
    sums_.resize_with_slack(most * static_cast<std::size_t>(own_.values.width));
    ops().coalesce(addends(), by_->there(ops()), 0, most, sums_.data());
    reduced_.rows = sums_.data();
    by_ = nullptr;
  }

  // Calls tell(rank, count) for every target of hop 0, with the number of the plan's keys for it.
  template <class Tell>
  void tell(Tell&& tell) const {
    tell_plan(*plan_, tell);
  }
  // Takes by told(rank) each source's number of keys for this rank on hop 0.
  template <class Told>
  void hear(Told&& told) {
    hear_plan(*plan_, told);
  }

 protected:
  // Returns the elements of a row.
  std::int64_t width() const { return own_.values.width; }
  // Returns the bytes of a row in memory, whatever the wire makes of it.
  std::size_t row_bytes() const { return static_cast<std::size_t>(own_.values.width) * sizeof(T); }

  // Returns the operations of the variable's queue, from `begin` on.
  Ops const& ops() const { return *ops_; }

  // Sums the arrivals by `groups`, which must stay until the next `begin`; on a device puts the sums off.
  void sum_by(Groups<Index, Space>& groups) {
    by_ = &groups;
    reduced_count_ = static_cast<std::int64_t>(groups.count());
    reduced_ = {groups.named(), nullptr, nullptr};
    if constexpr (Space::host_readable) sum_up();
    sum_counts(groups);
  }
  // Sums the rows lent by ranks: those of `ranks[s]` are of the grouped keys from `begins[s]` on. Under a Reading.
  void sum_lent(std::span<LentRows<T> const> ranks, std::span<std::size_t const> begins, Groups<Index, Space>& groups) {
    sums_.resize_with_slack(groups.size() * static_cast<std::size_t>(width()));
    RowOps<HostSpace>::coalesce_lent(ranks, begins, groups, width(), sums_.data());
    reduced_ = {groups.named(), sums_.data(), nullptr};
    sum_counts(groups);
  }
  // Sums the number of indices of each key, from the arrived counts. Nothing if rows are not counted.
  void sum_counts(Groups<Index, Space>& groups) {
    if (!counted_) return;
    std::size_t const most = groups.most();
    count_sums_.resize_with_slack(most);
    ops().sum_counts(arrived_.count_span(), groups.there(ops()), 0, most, count_sums_.data());
    reduced_.counts = count_sums_.data();
  }

  // Makes the arrivals the result: `keys` are distinct and in their order already, and must stay.
  void keep(typename Groups<Index, Space>::Keys keys) {
    reduced_ = {keys, reinterpret_cast<T*>(arrived_.rows.data()), counted_ ? arrived_.count_span().data() : nullptr};
  }

  // Row operations by the variable's queue, given by `begin`.
  std::optional<Ops> ops_;
  // The update's plan, not owned. Its levels are filled as keys arrive.
  Plan* plan_ = nullptr;
  // This rank's rows [rows x width], for an index, a distinct index or a bag each.
  OwnRows<T> own_;
  // The first key of every owner, and the end.
  std::span<Index const> bases_;
  // Rows of the table, the bound of its keys.
  std::int64_t rows_ = 0;
  bool counted_ = false,  // the number of indices of a row travels along
      in_place_ = false,  // ranks may read each other's rows in place
      finished_ = true,   // set by the journey's `read` on its last leg
      known_ = false;     // the runs of hop 0 were agreed before, by a pull
  // The hop of the next leg; the journey's own `read` counts on.
  std::size_t hop_ = 0;
  // The arrivals over the last hop, and then the addends of the sums.
  ArrivedRows<T, Space> arrived_;
  // The rows of `reduced_`, if they had to be summed.
  Buffer<T, Space> sums_;
  // The counts of `reduced_`, if rows are counted.
  Buffer<std::uint32_t, Space> count_sums_;
  // Refers to the plan's or the journey's keys, and to the sums; valid until the next `begin`.
  ReducedRows<Index, T, Space> reduced_;
  std::int64_t reduced_count_ = 0;  // number of its addends
  // The groups of sums that are put off, else null.
  Groups<Index, Space>* by_ = nullptr;
};

}  // namespace parallax
