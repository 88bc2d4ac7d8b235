// Keys grouped on a CUDA device, with their number told to the host, and more only on demand; or grouped by the host, and sent
// there. For every compiler; kernel/cuda/row_ops.hpp includes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "parallax/detail/kernel/cuda/shown.hpp"
#include "parallax/detail/kernel/groups.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"

namespace parallax::inline v0_2 {

// Groups made by either side. Parts of the device's come to the host by a copy each, awaited by the queue's `await`; in a
// captured step that is Error (misuse). All memory stays for the next batch. All may throw Error (device, out_of_memory).
template <class Index>
class Groups<Index, CudaSpace> {
  using Ops = RowOps<CudaSpace>;

 public:
  // Refers to the distinct keys of groups, as long as these stay as they are.
  class Keys {
   public:
    Keys() = default;  // of no groups: there is no key
    // Made by `named`, of groups that outlive it.
    explicit Keys(Groups& groups) : groups_{&groups} {}
    // Returns the number of keys; the host waits for an unknown one.
    std::size_t size() const { return groups_ ? groups_->size() : 0; }
    // Returns a number not below size(); nothing is waited for.
    std::size_t most() const { return groups_ ? groups_->most() : 0; }
    // Returns the keys in the host's memory; they are brought, and waited for, if they are not there.
    std::span<Index const> here() const { return groups_->keys_here(); }
    // Returns device memory with room for `most()`: the first of them are keys, as many as `count` says.
    std::span<Index const> there(Ops const& ops) const { return {groups_->keys_there(ops), groups_->most()}; }
    // Returns the place of the number of keys, in device memory.
    std::uint32_t const* count(Ops const& ops) const { return groups_->there(ops).distinct; }

   private:
    Groups* groups_ = nullptr;
  };

  // Groups keys in the host's memory, on the host, with unique_with_inverse's errors; the device gets the groups on demand.
  void group_here(Ops const& ops, std::span<Index const> keys, std::int64_t bound, SortScratch<Index>& scratch) {
    ops_.emplace(ops);
    RowOps<HostSpace>::unique_with_inverse(keys, bound, host_, scratch);
    count_ = keys.size(), distinct_ = host_.size();
    here_ = Here::all, there_ = made_there_ = false;
  }
  // Puts in the queue the grouping of `count` keys in [0, bound], which lie in device memory until it is done. Without keys the
  // host makes the groups, and `scratch` is for it.
  void group(Ops const& ops, Index const* keys, std::size_t count, std::int64_t bound, SortScratch<Index>& scratch) {
    if (count == 0) return group_here(ops, {}, bound, scratch);
    begin_there(ops, count);
    ops.group_keys(keys, bound + 1, view_);
  }
  // Groups keys as `group` does, cut at bases[first], bases[first + stride], … and padded to as many places for each owner:
  // places count as distinct keys, `size()` is known. `wrongs`, counts of wrong offsets, and `tally` lie on the device.
  void group_padded(Ops const& ops, Index const* keys, std::size_t count, Index const* bases, std::size_t first,
                    std::size_t stride, std::int64_t bound, device::Padding const& padding,
                    std::span<std::uint32_t const> wrongs, device::PaddingTally* tally) {
    begin_there(ops, count);
    std::size_t const places = padding.owners * (std::size_t{padding.capacity} + 1);
    padded_.resize_with_slack(bytes_of(places, count));
    auto const padded = arrays(padded_.data(), places, count);
    view_.order = padded.order;  // both have the same
    if (count > 0) ops.group_keys(keys, bound + 1, view_);
    else ops.clear(made_.data(), bytes_of(0, 0));
    told_.resize_with_slack(padding.owners + 4);
    ops.cut_groups(view_, bases, first, stride, padding.owners + 1, bound, wrongs, told_.data());
    ops.pad_groups(view_, told_.data(), padding, bound, padded, tally);
    view_ = padded, whole_ = padded_.data(), room_ = places;
    distinct_ = places;
  }
  // Drops the padding of keys that arrived from ranks: `bound` and keys above it are no keys.
  void drop_padding(std::int64_t bound) { ops_->drop_padding(view_, bound); }
  // Drops the greatest distinct key, grouped by the host, for indices that take no part: its run stays in `order`.
  void drop_last() {
    host_.keys.resize(host_.keys.size() - 1);
    --*distinct_;
  }
  // Returns true if the device has made the groups, and not the host.
  bool made_there() const { return made_there_; }

  // Cuts groups made by the device. Puts in the queue: the beginnings of the runs of keys cut by bases[first], bases[first +
  // stride], …, `cuts` of them; and the number of keys below `bound`, for the last one may be `bound`, for indices that take no
  // part. One copy takes these numbers to the host, and the sum of `wrongs`, counts of wrong offsets in device memory.
  void cut(Index const* bases, std::size_t first, std::size_t stride, std::size_t cuts, std::int64_t bound,
           std::span<std::uint32_t const> wrongs) {
    told_.resize_with_slack(cuts + 3);
    ops_->cut_groups(view_, bases, first, stride, cuts, bound, wrongs, told_.data());
    bring(told_.data(), (cuts + 3) * sizeof(std::uint32_t));
  }
  // Returns true if the host has the numbers of the last `cut`, without waiting.
  bool cut_is_here() const { return brought_at_->reached(); }
  // Waits for the numbers of the last `cut`, as the queue's `await` does.
  void await_cut() const { ops_->await(*brought_at_); }
  // Further numbers of a cut.
  struct Told {
    // Number of indices that take no part.
    std::size_t none;
    // The sum of the `wrongs` given to `cut`.
    std::size_t wrong;
  };
  // Writes the beginnings of the runs to `begins`, and returns the other numbers; only once `cut_is_here`.
  Told take_cut(std::span<std::size_t> begins) {
    auto const* const numbers = brought<std::uint32_t>();
    std::copy_n(numbers, begins.size(), begins.data());
    distinct_ = numbers[begins.size()];
    return {numbers[begins.size() + 1], numbers[begins.size() + 2]};
  }

  // Returns the number of grouped keys.
  std::size_t count() const { return count_; }
  // Returns a number not below size(); nothing is waited for.
  std::size_t most() const { return distinct_ ? *distinct_ : count_; }
  // Returns the number of distinct keys; the host waits for an unknown one.
  std::size_t size() const {
    if (!distinct_) {
      bring(view_.distinct, sizeof(std::uint32_t));
      ops_->await(*brought_at_);
      distinct_ = *brought<std::uint32_t>();
    }
    return *distinct_;
  }

  // Returns the whole Grouping in the host's memory, until other keys are grouped; brought, and waited for, if it is not there.
  Grouping<Index> const& here() {
    if (here_ == Here::all) return host_;
    std::size_t const u = size();
    bring(whole_, bytes_of(room_, count_));
    ops_->await(*brought_at_);
    auto const copy = arrays(brought_.data(), room_, count_);
    take(copy.keys, u, host_.keys), take(copy.offsets, u + 1, host_.offsets);
    take(copy.order, count_, host_.order), take(copy.inverse, count_, host_.inverse);
    here_ = Here::all;
    return host_;
  }
  // Returns the distinct keys alone in the host's memory, until other keys are grouped; brought, and waited for, if not there.
  std::span<Index const> keys_here() {
    if (here_ == Here::nothing) {
      std::size_t const u = size();
      bring(view_.keys, u * sizeof(Index));
      ops_->await(*brought_at_);
      take(brought<Index>(), u, host_.keys);
      here_ = Here::keys;
    }
    return host_.keys.span();
  }
  // Returns the groups for operations, for work put in the stream of `ops` from now on; valid until other keys are grouped.
  device::GroupingView<Index> const& there(Ops const& ops) {
    if (!there_) send(ops);
    return view_;
  }
  // Returns the distinct keys, ascending, in device memory, sent as by `there`.
  Index const* keys_there(Ops const& ops) { return there(ops).keys; }
  // Returns a reference to the distinct keys of these groups, which outlive it.
  Keys named() { return Keys{*this}; }

 private:
  // The host's part of the groups.
  enum class Here : unsigned char { nothing, keys, all };

  // Returns views of the arrays of `count` keys in one block of memory, one behind another; of distinct keys there are `named`.
  static device::GroupingView<Index> arrays(std::byte* block, std::size_t named, std::size_t count) {
    auto* const numbers = reinterpret_cast<std::uint32_t*>(block + named * sizeof(Index));
    return {reinterpret_cast<Index*>(block),
            numbers,
            numbers + named + 1,
            numbers + named + 1 + count,
            numbers + named + 1 + 2 * count,
            static_cast<std::uint32_t>(count)};
  }
  // Returns the bytes of the block for `arrays`.
  static std::size_t bytes_of(std::size_t named, std::size_t count) {
    return named * sizeof(Index) + (named + 2 + 2 * count) * sizeof(std::uint32_t);
  }

  // Makes room for the device's groups of so many keys.
  void begin_there(Ops const& ops, std::size_t count) {
    ops_.emplace(ops);
    count_ = room_ = count, distinct_.reset();
    here_ = Here::nothing, there_ = made_there_ = true;
    made_.resize_with_slack(bytes_of(count, count));
    view_ = arrays(made_.data(), count, count);
    whole_ = made_.data();
  }
  // Sends the host's groups to the device in one copy.
  void send(Ops const& ops) {
    std::size_t const named = host_.size();
    std::byte* const room = upload_.room(bytes_of(named, count_));
    auto const sent = arrays(room, named, count_);
    std::copy_n(host_.keys.data(), named, sent.keys);
    std::copy_n(host_.offsets.data(), named + 1, sent.offsets);
    std::copy_n(host_.order.data(), count_, sent.order);
    std::copy_n(host_.inverse.data(), count_, sent.inverse);
    *sent.distinct = static_cast<std::uint32_t>(named);
    // Operations only read them.
    view_ = arrays(const_cast<std::byte*>(upload_.start(ops.stream())), named, count_);
    there_ = true;
  }
  // Puts in the queue a copy to pinned memory, and an event behind it, `brought_at_`.
  void bring(void const* from, std::size_t bytes) const {
    brought_.resize_with_slack(bytes);
    if (!brought_at_) brought_at_.emplace();
    device::copy(brought_.data(), from, bytes, cudaMemcpyDeviceToHost, ops_->stream());
    brought_at_->record(ops_->stream());
  }
  // Returns the bytes of the last copy as elements of E.
  template <class E>
  E const* brought() const {
    return reinterpret_cast<E const*>(brought_.data());
  }
  template <class E>
  static void take(E const* from, std::size_t n, Buffer<E>& to) {
    to.resize_with_slack(n);
    std::copy_n(from, n, to.data());
  }

  // Of the groups' queue.
  std::optional<Ops> ops_;
  Grouping<Index> host_;
  device::GroupingView<Index> view_;
  device::Upload upload_;
  Buffer<std::byte, CudaSpace> made_, padded_;
  std::byte const* whole_ = nullptr;       // the one of both behind `view_`
  std::size_t room_ = 0;                   // its distinct keys, at most
  Buffer<std::uint32_t, CudaSpace> told_;  // results of `cut`
  // The last copy, and its time: a number asked for is waited for at once.
  mutable Buffer<std::byte, PinnedSpace> brought_;
  mutable std::optional<CudaEvent> brought_at_;
  std::size_t count_ = 0;
  mutable std::optional<std::size_t> distinct_ = 0;
  Here here_ = Here::nothing;
  bool there_ = false, made_there_ = false;  // `view_` is of these keys; the device has grouped them
};

}  // namespace parallax
