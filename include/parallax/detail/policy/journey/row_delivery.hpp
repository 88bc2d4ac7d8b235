// The journey of rows to all ranks that hold them, each row as it is: the traffic of `Session::assign` and `Session::scale`,
// and the search for rows that contradict each other.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/policy/journey/legs.hpp"

namespace parallax::inline v0_2 {

// Two rows given for one key that differ: by their positions among the grouped rows. Or none.
struct RowConflict {
  // True if there are such rows; the other members mean something only then.
  bool found = false;
  std::size_t key = 0;  // its number among the distinct ones
  // The position of the row compared with, the first of its key.
  std::uint32_t first = 0, second = 0;  // of the other one
  // The first differing column.
  std::int64_t column = 0;
};

// Returns the first two rows of one key without the same bits, key after key; `found` is false if there are none. `rows` has a
// row for each grouped position, in memory of the host. Local: of own rows before they travel, or of arrived ones.
template <class Index, class T>
RowConflict conflict_in(Grouping<Index> const& groups, RowsView<T const> rows) {
  for (std::size_t key = 0; key < groups.size(); ++key) {
    std::uint32_t const first = groups.order[groups.offsets[key]];
    for (std::uint32_t at = groups.offsets[key] + 1; at < groups.offsets[key + 1]; ++at) {
      std::uint32_t const second = groups.order[at];
      for (std::int64_t column = 0; column < rows.width; ++column)
        if (std::memcmp(rows.row(first) + column, rows.row(second) + column, sizeof(T)) != 0)
          return {true, key, first, second, column};
    }
  }
  return {};
}

// Distinct keys, each with a row, go to the rows' owners, past all levels, or, if every rank has all rows of the table, to all
// ranks. A leg of counts goes before. Nothing is summed: the plan's top level groups all ranks' rows.
template <Communicator C, class Index, class T>
class RowDelivery final : public Traveller<C> {
 public:
  // The plan of keys, in the host's memory.
  using Plan = RowPlan<Index>;

  // Makes the journey, local. The plan is cut for the topology's direct hop; `rows` has a row for each of its keys, in memory
  // of the host, or of no width, if the keys alone matter. Both outlive the journey. `table_rows` is the bound of the keys;
  // `to_owners`: true if the table is sharded, alike on all ranks.
  RowDelivery(Topology<C> const& topology, Plan& plan, RowsView<T const> rows, std::int64_t table_rows, bool to_owners)
      : plan_{&plan}, own_{rows, RowsPer::distinct}, rows_{table_rows}, to_owners_{to_owners} {
    for (int rank = 0; rank < topology.size(); ++rank) everyone_.push_back(rank);
  }

  // Opens the next of two legs: the number of keys to follow, then the keys with their rows. Returns false after them.
  bool next(Mails<C>& mail) override {
    if (leg_ == DeliveryLoad::none) return false;
    if (leg_ == DeliveryLoad::counts && to_owners_) {
      counts_leg_.open(mail.of(), *plan_, 0);
    } else if (leg_ == DeliveryLoad::counts) {
      gather_leg_.open_sizes(mail.of(), everyone_, everyone_);
    } else if (to_owners_) {
      keys_leg_.open(mail, *plan_, 0);
      rows_leg_.open(mail, *plan_, 0, own_.values.width, false);
    } else {
      gather_leg_.open(mail, plan_->size(), everyone_, everyone_, own_.values.width, false);
    }
    return true;
  }
  // Fills the leg: this rank's counts; then its keys and rows, each to its owner, or all of them to everybody.
  void write(Mails<C>& mail) override {
    if (leg_ == DeliveryLoad::counts && to_owners_) {
      counts_leg_.write(mail.of(), *plan_, 0);
    } else if (leg_ == DeliveryLoad::counts) {
      gather_leg_.write_size(mail.of(), plan_->size());
    } else if (to_owners_) {
      keys_leg_.write(mail, {}, *plan_, 0);
      rows_leg_.write(mail, {}, *plan_, 0, own_, arrived_, false);
    } else {
      auto const rows = [&](T* out) { write_level<Index, T, HostSpace>({}, *plan_, 0, own_, arrived_, 0, plan_->size(), out); };
      gather_leg_.write(mail, {plan_->groups.keys.span(), rows, [](std::uint32_t*) {}}, false);
    }
  }
  // Takes the leg's arrivals: all ranks' counts, then keys and rows. Keys make the plan's top level, rows stay as they came.
  void read(Mails<C>& mail) override {
    if (leg_ == DeliveryLoad::counts) {
      if (to_owners_) counts_leg_.read(mail.of(), *plan_, 0);
      else gather_leg_.read_sizes(mail.of(), everyone_);
      leg_ = DeliveryLoad::rows;
      return;
    }
    if (to_owners_) {
      keys_leg_.read(mail, {}, *plan_, 0, rows_);
      rows_leg_.read(mail, *plan_, 0, arrived_, false);
    } else {
      gather_leg_.read(mail, everyone_, arrived_, false);
      std::swap(plan_->received, gather_leg_.keys);
      plan_->runs.front().received.assign(everyone_.size() + 1, 0);
      for (std::size_t giver = 0; giver < everyone_.size(); ++giver) plan_->expect(0, giver, gather_leg_.expected[giver]);
      plan_->merge_received({}, 0, rows_);
    }
    leg_ = DeliveryLoad::none;
  }

  // Returns all arrived rows, local, once `next` is false: rank after rank, as the plan's top level groups them; this object's.
  RowsView<T const> arrived() const {
    return {arrived_.first(), static_cast<std::int64_t>(plan_->top().count()), own_.values.width};
  }
  // Returns the rank that gave the row at this position of `arrived`. Local, for messages.
  int giver(std::uint32_t position) const {
    std::size_t source = 0, end = expected(0);
    while (end <= position) end += expected(++source);
    return to_owners_ ? plan_->hops.front().sources[source] : everyone_[source];
  }

 private:
  enum class DeliveryLoad : unsigned char { counts, rows, none };

  // Returns the number of keys, and so of rows, announced by a source: number `source` of the hop's, or of `everyone_`.
  std::size_t expected(std::size_t source) const {
    return to_owners_ ? plan_->received_from(0, source) : gather_leg_.expected[source];
  }

  Plan* plan_;      // not owned
  OwnRows<T> own_;  // not owned
  std::int64_t rows_;
  bool to_owners_;
  DeliveryLoad leg_ = DeliveryLoad::counts;
  List<int> everyone_;  // all ranks, givers and takers if every rank has all rows
  CountsLeg<C, Plan> counts_leg_;
  KeysLeg<C, Plan> keys_leg_;
  RowsLeg<C, Index, T, HostSpace> rows_leg_;
  GatherLeg<C, Index, T, HostSpace> gather_leg_;
  ArrivedRows<T, HostSpace> arrived_;
};

}  // namespace parallax
