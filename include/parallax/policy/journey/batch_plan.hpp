// The plan of a batch by itself: which distinct keys its indices name, and in which bags they lie. Made by a pull, or by an
// update that brings indices; nothing here knows where keys travel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>
#include "parallax/core/algorithm.hpp"

#include "parallax/kernel/host.hpp"

namespace parallax {

// The bags of a pull, planned by the host: the indices of bag b are at positions begins[b] … begins[b + 1] - 1.
template <MemorySpace Space>
struct BagPlan {
  std::size_t count = 0;
  bool factored = false, mean = false;  // whether indices have factors; whether those are one over how many a bag has
  Buffer<std::uint32_t> begins;         // count + 1
  Buffer<std::uint32_t> of_index;       // by index: the number of its bag
  Buffer<std::uint32_t> kept;           // by bag: its indices that were not dropped, 1 if there are none
  Buffer<std::byte> factors;            // by index, of the variable's scalar type
  Buffer<std::byte, Space> pooled;      // the rows of each bag as one

  // Where operations in the space find them.
  template <class T>
  RowTerms<T> terms(RowOps<Space> const& ops, RowsView<T const> rows) {
    return {rows, shown_of_index_.of(ops, of_index.span()).data(), shown_factors<T>(ops)};
  }
  template <class T>
  T const* shown_factors(RowOps<Space> const& ops) {
    return factored ? reinterpret_cast<T const*>(shown_factors_.of(ops, factors.span()).data()) : nullptr;
  }
  std::span<std::uint32_t const> shown_begins(RowOps<Space> const& ops) { return shown_begins_.of(ops, begins.span()); }
  std::span<std::uint32_t const> shown_kept(RowOps<Space> const& ops) { return shown_kept_.of(ops, kept.span()); }
  // The host has made them anew.
  void renew() { shown_begins_.renew(), shown_of_index_.renew(), shown_kept_.renew(), shown_factors_.renew(); }

  void copy_from(BagPlan const& other) {
    count = other.count, factored = other.factored, mean = other.mean;
    auto const copy = [](auto const& from, auto& to) {
      to.resize_with_slack(from.size());
      std::copy_n(from.data(), from.size(), to.data());
    };
    copy(other.begins, begins), copy(other.of_index, of_index), copy(other.kept, kept), copy(other.factors, factors);
    renew();
  }

 private:
  Shown<std::uint32_t, Space> shown_begins_, shown_of_index_, shown_kept_;
  Shown<std::byte, Space> shown_factors_;
};

// The distinct keys of a batch, and which of its indices named each. The host makes the plan; rows, and what moves and sums them,
// are in memory of the space. Owns its memory; pooled and reused.
template <class Index, MemorySpace Space = HostSpace>
struct BatchPlan {
  using Ops = RowOps<Space>;

  Grouping<Index> groups;
  Buffer<Index> keys;                            // scratch: keys before grouping
  Buffer<std::byte, Space> values;               // the rows after a pull: size() rows
  Buffer<std::byte, Space> edited, differences;  // of a pull whose rows the trainer changes: the copy, and what it changed
  SortScratch<Index> sort;
  std::size_t dropped = 0;  // indices outside the table that take no part; their inverse is size()
  int users = 0;            // handles and updates that hold this plan
  bool retired = false;     // its keys are those of an earlier placement; `retired_rows` the table rows
  Buffer<Index> retired_rows;
  BagPlan<Space> bags;

  std::size_t indices() const { return groups.count(); }
  std::size_t size() const { return groups.size(); }

  // Where operations in the space find the groups.
  decltype(auto) shown_groups(Ops const& ops) { return shown_groups_.of(ops, groups); }
  // Keys of the host's, once.
  std::span<Index const> shown_keys(Ops const& ops, std::span<Index const> given) {
    shown_keys_.renew();
    return shown_keys_.of(ops, given);
  }

  // Local. The placement is about to change: what still holds this plan finds its rows by number.
  template <class RowOf>
  void retire(RowOf&& row_of) {
    if (retired) return;
    retired_rows.resize_with_slack(size());
    for (std::size_t i = 0; i < size(); ++i) retired_rows[i] = row_of(groups.keys[i]);
    retired = true;
  }

  // Local. Groups the first `count` of `keys`; a key of `rows` stands for an index that was dropped.
  void group(std::size_t count, std::int64_t rows) {
    RowOps<HostSpace>::unique_with_inverse(std::span<Index const>{keys.data(), count}, rows + (dropped > 0), groups, sort);
    if (dropped > 0) groups.keys.resize(groups.keys.size() - 1);  // the last one
    shown_groups_.renew();
  }
  // On a device: `place` writes there the keys of so many indices, `rows` for one outside the table. Their groups are taken once
  // they have arrived.
  template <class Place>
  void group_there(Ops const& ops, std::size_t count, std::int64_t rows, Place&& place) {
    placed_.resize_with_slack(count);
    place(placed_.data());
    shown_groups_.make(ops, std::span<Index const>{placed_.span()}, rows);
  }
  bool groups_arrived() const { return shown_groups_.arrived(); }
  void take_groups(Ops const& ops) {
    shown_groups_.take(ops, groups);
    dropped = groups.count() - groups.offsets[groups.size()];
  }
  // A row of zeros behind the pulled ones, which is what dropped indices get.
  void append_zeros(Ops const& ops, std::size_t row_bytes) {
    std::size_t const bytes = size() * row_bytes;
    if (values.capacity() < bytes + row_bytes) {
      Buffer<std::byte, Space> larger{bytes + row_bytes};
      ops.copy_bytes(larger.data(), values.data(), bytes);
      values.swap(larger);
    }
    values.resize(bytes + row_bytes);
    ops.clear(values.data() + bytes, row_bytes);
  }

 private:
  Shown<Grouping<Index>, Space> shown_groups_;
  Shown<Index, Space> shown_keys_;
  Buffer<Index, Space> placed_;  // scratch: keys before grouping, on a device
};

}  // namespace parallax
