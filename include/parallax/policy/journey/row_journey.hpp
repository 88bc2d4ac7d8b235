// What the journeys of sparse gradients have in common: a policy derives from it, and the update of a sparse variable sends it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/policy/journey/batch.hpp"
#include "parallax/policy/journey/legs.hpp"

namespace parallax {

// What the journeys of sparse gradients share: the plan, the rows, and the result. A policy derives its own from it, and adds:
//   prepare()                 local: after `begin`
//   asks(), tell(f), hear(f)  whether a number rides in the ranks' agreement; f(rank, count) to tell it, f(rank) to hear it
//   next, write, read         its legs (see `carry`)
//   reduce()                  local, after arrival: calls `sum_by` or `keep`
// and says in constants what is not as here.
template <class Index, class T, MemorySpace Space>
class RowJourney {
 public:
  using Plan = RowPlan<Index, Space>;
  using Ops = RowOps<Space>;

  static constexpr bool gathers = false;           // every rank ends with all rows of the sum, and not with those it owns
  static constexpr bool every_occurrence = false;  // rows travel one for each index, not summed before

  // Local. `rows` is the bound of the keys; the row memory must stay until the journey has arrived.
  void begin(Ops const& ops, Plan& plan, OwnRows<T> own, std::span<Index const> bases, std::int64_t rows, bool counted) {
    ops_.emplace(ops);
    plan_ = &plan;
    own_ = own;
    bases_ = bases;
    rows_ = rows;
    counted_ = counted;
    hop_ = 0;
    finished_ = false;
    known_ = plan.agreed > 0;
    by_ = nullptr;
  }

  bool asks() const { return true; }
  void prepare() {}

  Plan& plan() const { return *plan_; }
  bool known() const { return known_; }  // whether a pull of the same plan has told its runs, at the outset
  // After `reduce`. On a device without rows as long as the sums are put off: what updates the table may make them as it needs
  // them, of the rows that arrived, `addends`, by `groups`.
  ReducedRows<Index, T> const& reduced() const { return reduced_; }
  bool puts_off() const { return by_ != nullptr; }
  RowsView<T const> addends() const { return {arrived_.first(), reduced_count_, own_.values.width}; }
  auto const& groups() const { return *by_; }
  void sum_up() {
    if (!by_) return;
    std::size_t const u = reduced_.keys.size();
    sums_.resize_with_slack(u * static_cast<std::size_t>(own_.values.width));
    ops().coalesce(addends(), *by_, 0, u, sums_.data());
    reduced_.rows = sums_.data();
    by_ = nullptr;
  }

  // The counts of hop 0: how many keys of the plan go to each rank.
  template <class Tell>
  void tell(Tell&& tell) const {
    tell_plan(*plan_, tell);
  }
  template <class Told>
  void hear(Told&& told) {
    hear_plan(*plan_, told);
  }

 protected:
  std::int64_t width() const { return own_.values.width; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(own_.values.width) * sizeof(T); }

  Ops const& ops() const { return *ops_; }

  using Groups = std::remove_cvref_t<decltype(std::declval<Shown<Grouping<Index>, Space>&>().of(
      std::declval<Ops const&>(), std::declval<Grouping<Index> const&>()))>;

  // Sums what arrived by `groups`, on a device not yet. Both must stay until the sums are there.
  void sum_by(Grouping<Index> const& groups, Groups const& shown) {
    by_ = &shown;
    reduced_count_ = static_cast<std::int64_t>(groups.count());
    reduced_ = {groups.keys.span(), nullptr, nullptr};
    if constexpr (Space::host_readable) sum_up();
    sum_counts(groups);
  }
  // Sums what ranks lend, each the rows of its run of the keys that were grouped.
  void sum_lent(std::span<LentRows<T> const> ranks, std::span<std::size_t const> begins, Grouping<Index> const& groups) {
    sums_.resize_with_slack(groups.size() * static_cast<std::size_t>(width()));
    RowOps<HostSpace>::coalesce_lent(ranks, begins, groups, width(), sums_.data());
    reduced_ = {groups.keys.span(), sums_.data(), nullptr};
    sum_counts(groups);
  }
  void sum_counts(Grouping<Index> const& groups) {
    if (!counted_) return;
    std::size_t const u = groups.size();
    count_sums_.resize_with_slack(u);
    RowOps<HostSpace>::sum_counts(arrived_.count_span(), groups, 0, u, count_sums_.data());
    reduced_.counts = count_sums_.data();
  }

  // What arrived is the result: distinct keys in order already.
  void keep(std::span<Index const> keys) {
    reduced_ = {keys, reinterpret_cast<T*>(arrived_.rows.data()), counted_ ? arrived_.count_span().data() : nullptr};
  }

  std::optional<Ops> ops_;
  Plan* plan_ = nullptr;
  OwnRows<T> own_;
  std::span<Index const> bases_;
  std::int64_t rows_ = 0;
  bool counted_ = false, finished_ = true, known_ = false;
  std::size_t hop_ = 0;
  ArrivedRows<T, Space> arrived_;
  Buffer<T, Space> sums_;
  Buffer<std::uint32_t> count_sums_;
  ReducedRows<Index, T> reduced_;
  std::int64_t reduced_count_ = 0;  // of what they are the sums
  Groups const* by_ = nullptr;
};

}  // namespace parallax
