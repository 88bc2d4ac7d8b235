// The plan of a batch by itself: the distinct keys of its indices, and their bags. Made by a pull, or by an update that brings
// indices; nothing here knows the travel of keys.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/on_device.hpp"
#include "parallax/detail/kernel/groups.hpp"

namespace parallax::inline v0_2 {

// The bags of a pull: the indices of bag b are at positions begins[b] … begins[b + 1] - 1. Their begins are known on the side
// of the given offsets, the host or a device; the data of each index is in memory of the space.
template <MemorySpace Space>
struct BagPlan {
  // Operations that move and sum rows in memory of the space.
  using Ops = RowOps<Space>;

  // Number of bags of the pull; 0 if rows are pulled one by one.
  std::size_t count = 0;
  // True if indices have factors: their weights, or a mean's.
  bool factored = false, mean = false;    // true if a bag is the mean of its kept rows
  Buffer<std::uint32_t, Space> of_index;  // by index: the number of its bag
  Buffer<std::uint32_t, Space> kept;      // by bag: its indices without dropped ones, 1 if there are none
  Buffer<std::byte, Space> factors;       // by index, of the variable's scalar type
  Buffer<std::byte, Space> pooled;        // the rows of each bag as one

  // Clears: there are no bags, until some begin. Memory stays.
  void clear() { count = 0, begin_there_ = false; }
  // Begins as many bags as the offsets say, in order, each at the host's offset; local. Offsets are copied.
  template <class Offset>
  void begin_here(std::span<Offset const> offsets) {
    count = offsets.size() - 1;
    begins_.resize_with_slack(offsets.size());
    std::transform(offsets.begin(), offsets.end(), begins_.data(),
                   [](auto const offset) { return static_cast<std::uint32_t>(offset); });
    shown_begins_.renew();
    begin_there_ = false;
  }
  // Puts in a device's queue the begins of `bags` bags at `offsets`, which lie there until the queue has done it; and a check
  // of these offsets' order, for so many indices. Local; waits for nothing. `wrongs` has its result.
  template <class Offset>
  void begin_there(Ops const& ops, Offset const* offsets, std::size_t bags, std::size_t indices) {
    count = bags;
    made_.resize_with_slack(count + 1 + ops.blocks_of_offsets(count));
    ops.take_offsets(offsets, count, indices, made_.data());
    begin_there_ = true;
  }
  // Returns numbers in a device's memory, of bags made there: zeros if their offsets were right. Else bags begin anywhere
  // within the indices. None for bags made by the host.
  std::span<std::uint32_t const> wrongs() const {
    return begin_there_ ? made_.span().subspan(count + 1) : std::span<std::uint32_t const>{};
  }

  // Fills the data of indices, local, after the begins of bags and the groups of the indices were made. With `weighted` the
  // factors are the weights, and no mean's; `there`: these lie in memory of the space.
  template <class T, class Index>
  void place(Ops const& ops, Groups<Index, Space>& groups, std::span<T const> weights, bool weighted, bool there) {
    std::size_t const n = groups.count();
    factored = weighted || mean;
    of_index.resize_with_slack(n);
    kept.resize_with_slack(count);
    factors.resize_with_slack(factored ? n * sizeof(T) : 0);
    T* const own = reinterpret_cast<T*>(factors.data());
    T* const shares = mean && !weighted ? own : nullptr;
    if constexpr (Space::host_readable)
      ops.place_in_bags(begins_there(ops), groups.there(ops), of_index.data(), kept.data(), shares);
    else ops.place_in_bags(begins_there(ops), groups.there(ops), of_index.data(), kept.data(), shares, wrongs());
    if (!weighted) return;
    shown_weights_.renew();
    std::span<std::byte const> const given{reinterpret_cast<std::byte const*>(weights.data()), weights.size_bytes()};
    bool const here = Space::host_readable || !there;
    ops.copy_bytes(factors.data(), here ? shown_weights_.of(ops, given).data() : given.data(), given.size());
  }
  // Returns the rows of bags as terms of a sum, one for each index: its factor times row `of_index` of `rows`, one row for each
  // bag. In memory of the space.
  template <class T>
  RowTerms<T> terms(RowsView<T const> rows) const {
    return {rows, of_index.data(), factor_list<T>()};
  }
  // Returns the factors alone, one for each index; null without any.
  template <class T>
  T const* factor_list() const {
    return factored ? reinterpret_cast<T const*>(factors.data()) : nullptr;
  }
  // Returns the begins of bags, and the end of the last, for operations in the space; valid until other bags begin.
  std::span<std::uint32_t const> begins_there(Ops const& ops) {
    if constexpr (!Space::host_readable)
      if (begin_there_) return {made_.data(), count + 1};
    return shown_begins_.of(ops, begins_.span());
  }
  // Returns the begins of bags and the end in the host's memory; of bags made by a device a copy: the stream is waited for.
  std::span<std::uint32_t const> begins_here([[maybe_unused]] Ops const& ops) {
    if constexpr (!Space::host_readable)
      if (begin_there_) {
        begins_.resize_with_slack(count + 1);
        ops.to_host(begins_.data(), made_.data(), count + 1);
      }
    return std::as_const(begins_).span();  // as it is: a conversion costs every compiler 60 M instructions
  }

  // Copies all but `pooled` from the bags of another plan, local: its batch is planned again for an update.
  PARALLAX_COLD void copy_from(Ops const& ops, BagPlan const& other) {
    count = other.count, factored = other.factored, mean = other.mean;
    begins_.resize_with_slack(other.begins_.size());
    std::copy_n(other.begins_.data(), begins_.size(), begins_.data());
    begin_there_ = other.begin_there_;
    auto const copy = [&](auto const& from, auto& to) {
      to.resize_with_slack(from.size());
      ops.copy_bytes(to.data(), from.data(), from.size() * sizeof(*from.data()));
    };
    if constexpr (!Space::host_readable) copy(other.made_, made_);
    copy(other.of_index, of_index), copy(other.kept, kept), copy(other.factors, factors);
    shown_begins_.renew();
  }

 private:
  Buffer<std::uint32_t> begins_;       // count + 1, of offsets given to the host
  Buffer<std::uint32_t, Space> made_;  // of others: count + 1, and `wrongs` behind
  bool begin_there_ = false;
  Shown<std::uint32_t, Space> shown_begins_;
  Shown<std::byte, Space> shown_weights_;
};

// The distinct keys of a batch, and the indices of each. The plan is made on the side of the indices: by the host, or on a
// device, which tells the host only the numbers of keys by receiver. Rows, and operations on them, are in memory of the space.
// Owns its memory; pooled and reused.
template <class Index, MemorySpace Space = HostSpace>
struct BatchPlan {
  // Operations that move and sum rows in memory of the space.
  using Ops = RowOps<Space>;

  // The distinct keys, ascending and so owner after owner, and the indices of each.
  Groups<Index, Space> groups;
  Buffer<Index> keys;               // scratch: keys of the host's before grouping
  Buffer<std::byte, Space> values;  // the rows after a pull: size() rows
  // The trainer's own copy of the pulled rows, to be changed, if there is one.
  Buffer<std::byte, Space> edited, differences;  // its changes: the rows of its gradient
  // Scratch of grouping, here and at the levels above.
  SortScratch<Index> sort;
  std::size_t dropped = 0;  // indices outside the table that take no part; their inverse is size()
  int users = 0;            // handles and updates that hold this plan
  bool padded = false;      // its keys have places, see `px::Padded`: the number of places with keys is not known
  bool stepped = false;     // a step has applied gradients of its rows
  bool retired = false;     // its keys are of an earlier placement; `retired_rows` the table rows
  // By distinct key: its table row under the earlier placement. Of a retired plan only.
  Buffer<Index> retired_rows;
  Buffer<std::uint32_t> named;  // of a plan made again of distinct rows: the number of indices of each; empty otherwise
  // The bags of its indices, if the pull has some.
  BagPlan<Space> bags;

  // Returns the number of indices of the batch, with dropped ones.
  std::size_t indices() const { return groups.count(); }
  // Returns the number of distinct keys: so many rows travel for this rank, however often an index repeats.
  std::size_t size() const { return groups.size(); }

  // Writes the number of indices of each of the keys [first, last) to `out`, in memory of the space. On a device in its queue.
  void times_named(Ops const& ops, std::size_t first, std::size_t last, std::uint32_t* out) {
    if (named.empty()) ops.run_lengths(groups.there(ops), first, last, out);
    else ops.sum_counts(shown_named_.of(ops, named.span()), groups.there(ops), first, last, out);
  }
  // Notes that `named` has changed or is empty.
  void renew_named() { shown_named_.renew(); }

  // Returns keys, or numbers of rows, for operations in the space, perhaps others in every call: the host's, or some that are
  // there. Valid until the next call.
  template <class Keys>
  std::span<Index const> shown_keys(Ops const& ops, Keys const& given) {
    if constexpr (requires { given.there(ops); }) {
      return given.there(ops);
    } else {
      shown_keys_.renew();
      return shown_keys_.of(ops, given);
    }
  }

  // Retires the plan before a change of placement, local: `row_of(key)` is a key's table row, by which holders of this plan
  // find its rows from then on. Waits for keys grouped by a device.
  template <class RowOf>
  PARALLAX_COLD void retire(RowOf&& row_of) {
    if (retired) return;
    retired_rows.resize_with_slack(size());
    auto const known = groups.keys_here();
    for (std::size_t i = 0; i < size(); ++i) retired_rows[i] = row_of(known[i]);
    retired = true;
  }

  // Groups the first `count` of `keys`, local, by the host; a key of `rows`, the table's, stands for a dropped index.
  void group(Ops const& ops, std::size_t count, std::int64_t rows) {
    groups.group_here(ops, std::span<Index const>{keys.data(), count}, rows + (dropped > 0), sort);
    if (dropped > 0) groups.drop_last();
  }
  // Groups on a device, in its queue: `place(keys)` writes there the keys of so many indices, `rows` for one outside the table.
  template <class Place>
  void group_there(Ops const& ops, std::size_t count, std::int64_t rows, Place&& place) {
    groups.group(ops, place_there(count, place), count, rows, sort);
  }
  // Returns the keys of so many indices, just written by `place(keys)`, in memory of the space: this plan's scratch.
  template <class Place>
  Index const* place_there(std::size_t count, Place&& place) {
    placed_.resize_with_slack(count);
    place(placed_.data());
    return placed_.data();
  }
  // Sends indices of the host's to a device, by one copy, and returns them there, in this plan's memory until the next `send`.
  template <class Id>
  auto send(Ops const& ops, std::span<Id const> ids) {
    using Number =
        std::conditional_t<(sizeof(Id) < sizeof(std::int32_t) || std::is_same_v<Id, std::int32_t>), std::int32_t, std::int64_t>;
    auto const sent = sent_ids_.write(ops, ids.size() * sizeof(Number), [&](std::byte* to) {
      auto* const numbers = reinterpret_cast<Number*>(to);
      for (std::size_t i = 0; i < ids.size(); ++i) numbers[i] = static_cast<Number>(ids[i]);
    });
    return on_device(std::span{reinterpret_cast<Number const*>(sent.data()), ids.size()});
  }
  // Appends a row of zeros behind the pulled ones, for dropped indices. May allocate.
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
  Shown<Index, Space> shown_keys_;
  Shown<std::uint32_t, Space> shown_named_;
  Shown<std::byte, Space> sent_ids_;
  Buffer<Index, Space> placed_;  // scratch: keys before grouping, on a device
};

}  // namespace parallax
