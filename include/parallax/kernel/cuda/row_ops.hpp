// RowOps<CudaSpace>: the row operations that variables on a CUDA device are made of, for every compiler. What launches kernels
// is declared here; kernel/cuda.cuh has it for files that nvcc compiles, one of which instantiates it for all others
// (PARALLAX_CUDA_INSTANTIATE). Without that the linker misses functions of parallax::RowOps<parallax::CudaSpace>.
// Programs include it in whatever file makes variables on a device, whichever compiler reads that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "parallax/core/short_float.hpp"
#include "parallax/core/view.hpp"
#include "parallax/kernel/cuda/operands.hpp"
#include "parallax/kernel/findings.hpp"
#include "parallax/kernel/host/bags.hpp"
#include "parallax/kernel/row_ops.hpp"
#include "parallax/memory/buffer.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax {
namespace device {

// A grouping as operations find it, and how many distinct keys it has, which the host knows. Made by Shown, and valid as long
// as its copy on the device.
template <class Index>
struct ShownGroups {
  // The arrays in device memory, which only operations read.
  GroupingView<Index> groups;
  // The number u of distinct keys; those that stand for dropped indices are not among them.
  std::uint32_t distinct = 0;
};

// Owns. Bytes on their way to the device, over pinned memory that is written again once the device has read it. A Shown has
// one and fills it again in every step; it allocates only when there is more to send than ever before.
class Upload {
 public:
  // Room for so many bytes, to be filled. Waits for the last `start`, should the device not have come that far.
  std::byte* room(std::size_t bytes) {
    if (reached_) reached_->synchronize();
    pinned_.resize_with_slack(bytes);
    device_.resize_with_slack(bytes);
    return pinned_.data();
  }
  // Sends what was filled in, by one copy in the order of `stream`. Returns where it will be on the device, for what is put
  // in the stream from now on. Throws Error (device).
  std::byte const* start(cudaStream_t stream) {
    if (!reached_) reached_.emplace();
    if (!pinned_.empty())
      check(cudaMemcpyAsync(device_.data(), pinned_.data(), pinned_.size(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    reached_->record(stream);
    return device_.data();
  }
  // Where the last `start` has sent it; the address changes only by `room`.
  std::byte const* there() const { return device_.data(); }

 private:
  Buffer<std::byte, PinnedSpace> pinned_;
  Buffer<std::byte, CudaSpace> device_;
  std::optional<CudaEvent> reached_;
};

}  // namespace device

// Elements of the host's memory on the device, sent in one copy when they are asked for and were renewed.
template <class T>
class Shown<T, CudaSpace> {
 public:
  // The elements in device memory, for work that is put in the stream of `ops` from now on; valid until the next `of` after a
  // `renew`. Throws Error (device, out_of_memory).
  std::span<T const> of(RowOps<CudaSpace> const& ops, std::span<T const> host);
  // The host has changed its elements: the next `of` sends them again.
  void renew() { stale_ = true; }

 private:
  device::Upload upload_;
  bool stale_ = true;
};

// A grouping of the host's on the device, sent in one copy; or one that the device has made, for the host. The second way is
// `make`, then `take` once it has `arrived`: what was taken is shown already, and is not sent.
template <class Index>
class Shown<Grouping<Index>, CudaSpace> {
 public:
  // The grouping in device memory, for work that is put in the stream of `ops` from now on; valid until the next `of` after a
  // `renew`. Throws Error (device, out_of_memory).
  device::ShownGroups<Index> const& of(RowOps<CudaSpace> const& ops, Grouping<Index> const& host);
  // The host has changed its grouping: the next `of` sends it again.
  void renew() { stale_ = true; }
  // Groups keys in [0, bound] there, and brings the groups to the host, where they are taken once they have `arrived`. The
  // keys that are `bound`, the last run, are no group: only `order` and `inverse` have them. There is at least one key;
  // `keys` lie in device memory until then. One copy of the whole grouping. Throws Error (device, out_of_memory).
  void make(RowOps<CudaSpace> const& ops, std::span<Index const> keys, std::int64_t bound);
  // Whether the host has what the last `make` has made; asked without waiting. Throws Error (device).
  bool arrived() const { return brought_at_->reached(); }
  // Copies the groups that have arrived into `host`, which owns its memory, and shows those on the device from now on.
  void take(RowOps<CudaSpace> const& ops, Grouping<Index>& host);

 private:
  // Of so many keys in one block of memory, one array after the other; of the distinct keys there are `named`.
  static device::GroupingView<Index> groups_at(std::byte* block, std::size_t named, std::size_t count);
  // The bytes of that block.
  static std::size_t bytes_of(std::size_t named, std::size_t count) {
    return named * sizeof(Index) + (named + 2 + 2 * count) * sizeof(std::uint32_t);
  }

  device::Upload upload_;
  Buffer<std::byte, CudaSpace> made_;
  Buffer<std::byte, PinnedSpace> brought_;
  std::optional<CudaEvent> brought_at_;
  std::size_t count_ = 0;
  std::int64_t bound_ = 0;
  device::ShownGroups<Index> shown_;
  bool stale_ = true;
};

// Works on device memory that the caller owns, in the order of the queue's stream; scratch comes from its memory. `wait` and
// what copies to or from the host's memory wait for the stream. Nothing else waits. Everything may throw Error (device,
// out_of_memory). The bits are those of RowOps<HostSpace>.
template <>
struct RowOps<CudaSpace> {
  // The space of the memory that is worked on.
  using space = CudaSpace;

  // As variables make it, of their communicator's queue. The queue's stream and resource outlive it.
  explicit RowOps(CudaQueue queue) : queue_{queue} {}
  // The stream in whose order everything here is put: the queue's, but while a `start` copies gradients in its caller's.
  cudaStream_t stream() const { return queue_.at_hand(); }

  // Copies `bytes` within device memory; the ranges do not overlap.
  void copy_bytes(void* to, void const* from, std::size_t bytes) const {
    device::copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream());
  }
  // Copies n elements from the host's memory. Waits for the stream, so that `from` may be used again.
  template <class T>
  void from_host(T* to, T const* from, std::size_t n) const {
    device::copy(to, from, n * sizeof(T), cudaMemcpyHostToDevice, stream());
    wait();
  }
  // Copies n elements to the host's memory. Waits for the stream, so that they are there.
  template <class T>
  void to_host(T* to, T const* from, std::size_t n) const {
    device::copy(to, from, n * sizeof(T), cudaMemcpyDeviceToHost, stream());
    wait();
  }
  // One value, for which the stream is waited for.
  template <class T>
  T read(T const* value) const {
    T copy{};
    to_host(&copy, value, 1);
    return copy;
  }
  // Blocks the thread until the stream has done all that was put in it, without a deadline.
  void wait() const { device::check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

  // Sets `bytes` bytes to zero.
  void clear(void* memory, std::size_t bytes) const {
    if (bytes > 0) device::check(cudaMemsetAsync(memory, 0, bytes, stream()), "cudaMemsetAsync");
  }
  // Sets n values to `value`, by a kernel.
  template <class T>
  void fill(T* values, std::size_t n, T value) const;

  // Many copies, made by as few kernels as have room for them: `add` each, then `start`.
  class Copies {
   public:
    // An empty list, to be put in the stream of `ops`, which outlives it.
    explicit Copies(RowOps const& ops) : ops_{&ops} {}
    // Remembers a copy of `bytes` within device memory. Throws Error (device) where a full list of them could not be started.
    void add(void* to, void const* from, std::size_t bytes) {
      if (list_.full()) start();
      list_.add({from, to, bytes});
    }
    // Starts the kernel that makes the copies since the last one; nothing for none. Throws Error (device).
    void start() {
      if (list_.count > 0) ops_->copy_all(list_);
      list_.count = 0, list_.most_bytes = 0;
    }

   private:
    RowOps const* ops_;
    device::CopyList list_;
  };
  // An empty list of copies, to be put in this stream.
  Copies copies() const { return Copies{*this}; }
  // The copies of a list, of device memory.
  template <class List>
  void copy_all(List const& list) const;

  // Keys of n ids: bases[owner] + local row, as the layout says. One outside [0, rows) has the key of the row that its hash
  // chooses, or, where it does not count for one, `rows`.
  template <class Id, class Layout, class Index>
  void place_ids(Id const* ids, std::size_t n, Layout const& layout, Index const* bases, bool hashes, Index* keys) const;
  // Groups `out.count` keys in [0, bound); `keys` and `out` lie in device memory. The groups are those of
  // unique_with_inverse.
  template <class Index>
  void group_keys(Index const* keys, std::int64_t bound, device::GroupingView<Index> const& out) const;

  // By position of a batch, the number of its distinct key, in device memory: what gather_rows takes.
  template <class Index>
  static std::span<std::uint32_t const> inverse(device::ShownGroups<Index> const& shown) {
    return {shown.groups.inverse, shown.groups.count};
  }
  // The positions of a batch, run after run, in device memory: what gather_rows takes.
  template <class Index>
  static std::span<std::uint32_t const> order(device::ShownGroups<Index> const& shown) {
    return {shown.groups.order, shown.groups.count};
  }

  // Row k - first of out, packed, = the sum of the rows of `values` at the positions of distinct key k, for k in [first,
  // last). Scratch: a row for 64 positions.
  template <class T, class Index>
  void coalesce(RowsView<std::type_identity_t<T> const> values, device::ShownGroups<Index> const& shown, std::size_t first,
                std::size_t last, T* out) const;
  // Row i of out = table row `directory(indices[i])`; indices may repeat.
  template <class T, class I>
  void gather_rows(RowsView<std::type_identity_t<T> const> table, std::span<I> indices,
                   Directory<std::remove_const_t<I>> directory, T* out) const;
  // The same of a table of numbers of 16 bits, which are widened.
  template <class W, class I>
  void widen_rows(RowsView<W const> table, std::span<I> indices, Directory<std::remove_const_t<I>> directory,
                  computed_type<W>* out) const;
  // Table row `directory(indices[i])` = row i of rows. The indices differ, where the host takes equal ones too.
  template <class T, class I>
  void scatter_rows(RowsView<T> table, std::span<I> indices, Directory<std::remove_const_t<I>> directory,
                    std::type_identity_t<T> const* rows) const;
  // out = rows [first, last), packed: by one copy.
  template <class T>
  void pack_rows(RowsView<std::type_identity_t<T> const> rows, std::size_t first, std::size_t last, T* out) const {
    auto const row_bytes = static_cast<std::size_t>(rows.width) * sizeof(T);
    T const* const from = rows.row(static_cast<std::int64_t>(first));
    if (rows.contiguous()) return copy_bytes(out, from, (last - first) * row_bytes);
    if (first < last && row_bytes > 0)
      device::check(cudaMemcpy2DAsync(out, row_bytes, from, static_cast<std::size_t>(rows.stride) * sizeof(T), row_bytes,
                                      last - first, cudaMemcpyDeviceToDevice, stream()),
                    "cudaMemcpy2DAsync");
  }

  // As `coalesce`, of terms that are never held; all that `terms` names lies on the device.
  template <class T, class Index>
  void coalesce_terms(RowTerms<T> const& terms, device::ShownGroups<Index> const& shown, std::size_t first, std::size_t last,
                      T* out) const {
    sum_terms(terms, shown.groups.order, shown.groups.offsets, first, last, out, shown.groups.inverse, shown.groups.count);
  }
  // Row k of out = the sum of the terms `offsets[k]` … `offsets[k + 1] - 1`, zeros if there are none: bags pooled.
  template <class T>
  void sum_term_runs(RowTerms<T> const& terms, std::span<std::uint32_t const> offsets, T* out) const {
    sum_terms(terms, nullptr, offsets.data(), 0, offsets.size() - 1, out, nullptr, 0);
  }
  // Row i of out = the term `positions[i]` alone.
  template <class T>
  void gather_terms(RowTerms<T> const& terms, std::span<std::uint32_t const> positions, T* out) const {
    sum_terms(terms, positions.data(), nullptr, 0, positions.size(), out, nullptr, 0);
  }
  // Runs [first, last) of terms in an order, where it is not null; without offsets each term is a run. Of a grouping of `count`
  // positions the `inverse` is given: then chunks of 64 terms of a run are summed side by side, which takes a row for 64 of
  // scratch.
  template <class T>
  void sum_terms(RowTerms<T> const& terms, std::uint32_t const* order, std::uint32_t const* offsets, std::size_t first,
                 std::size_t last, T* out, std::uint32_t const* inverse, std::size_t count) const;

  // Copies n contiguous elements within device memory.
  template <class T>
  void copy_from(T* out, std::type_identity_t<T> const* in, std::int64_t n) const {
    copy_bytes(out, in, static_cast<std::size_t>(n) * sizeof(T));
  }
  // Element by element, `out += in`, of n contiguous elements.
  template <class T>
  void add_to(T* out, std::type_identity_t<T> const* in, std::int64_t n) const;
  // Widens n contiguous numbers of 16 bits.
  template <class W>
  void widen_elements(W const* in, std::size_t n, computed_type<W>* out) const;
  // Rounds n contiguous numbers to 16 bits.
  template <class W>
  void narrow_elements(computed_type<W> const* in, std::size_t n, W* out) const;
  // Divides n contiguous elements by `divisor`, by true divisions.
  template <class T>
  void scale_down(T* values, std::int64_t n, std::type_identity_t<T> divisor) const;
  // Divides row i of `values`, of `width` elements, by `counts[i]`, which lie where operations find them.
  template <class T>
  void scale_rows_down(T* values, std::int64_t width, std::span<std::uint32_t const> counts) const;
  // Of rows of width + 1 elements the last divides the others, if it is more than one.
  template <class T>
  void scale_counted_rows_down(T* values, std::int64_t rows, std::int64_t width) const;

  // *out = the sum of all rows' squares, as Findings has it.
  template <class T>
  void sum_of_row_squares(RowsView<T const> rows, double* out) const;
  // *out = the first non-finite element in the order of rows; where all are finite, one of row `rows.rows`, which there is not.
  template <class T>
  void first_non_finite(RowsView<T const> rows, NonFiniteElement* out) const;

  // What a rule measures of n elements, whose slots may move: a number of `out` for each sum.
  template <class T, class Rule, class... S>
  void measure_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, std::type_identity_t<T> scale,
                        Rule const& rule, double* out, S*... slots) const;
  // The type of the rule that `rule.finish` makes of K sums.
  template <std::size_t K, class Rule>
  using Finished = decltype(std::declval<Rule const&>().finish(Measures<K>{}, std::int64_t{1}));
  // The rule that is made of all parts' sums, of n elements together, by a kernel of one thread: `parts` lie in device memory,
  // and so does the rule, where kernels find it. apply_elements takes it as a rule; the caller owns it, and may let it go once
  // it is put to use in the same stream.
  template <std::size_t K, class Rule>
  DeviceBuffer<Finished<K, Rule>> finish_rule(Rule const& rule, MeasuredParts<K> parts, std::int64_t n) const;

  // For each of n elements: `rule(parameter, gradient, slots…)`, as the host's. `scale`: a T, Unscaled or `Averaged<T>`;
  // `rule`: an optimizer's, or what finish_rule returned.
  template <class T, class Scale, class Rule, class... S>
  void apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, Scale scale, Rule const& rule,
                      S*... slots) const;

  // The slots of a rule as apply_rows and its like take them.
  template <class... S>
  static device::Slots<S...> slots(RowsView<S>... tables) {
    return device::Slots<S...>{tables...};
  }
  // Tables may be of numbers of 16 bits, which are rounded as they are written; gradients and slots are of what is computed in.
  // For table rows `directory(indices[i])`, by the packed rows of `gradients`. The indices differ. `element_slots` and
  // `row_slots`: by the function above.
  template <class T, class I, class Rule, class... S, class... R>
  void apply_rows(std::span<I> indices, Directory<std::remove_const_t<I>> directory, RowsView<T> table,
                  computed_type<T> const* gradients, computed_type<T> scale, Rule const& rule,
                  device::Slots<S...> const& element_slots, device::Slots<R...> const& row_slots) const;
  // As `coalesce`, a division and apply_rows in one: by sums that are never stored, of the rows of `values` by `shown`. Sums
  // are divided by `divisor`, or by `counts`, one for each distinct key, in device memory, where that is not null.
  template <class T, class Index, class Rule, class... S, class... R>
  void apply_runs(RowsView<computed_type<T> const> values, device::ShownGroups<Index> const& shown,
                  Directory<Index> directory, computed_type<T> divisor, std::uint32_t const* counts, RowsView<T> table,
                  Rule const& rule, device::Slots<S...> const& element_slots, device::Slots<R...> const& row_slots) const;
  // All rows of `table`, in order, by gradients that lie `gradients.stride` apart. With `skips` the number behind a gradient
  // says how many named its row: where none did, the row is left alone.
  template <class T, class Rule, class... S, class... R>
  void apply_spaced_rows(RowsView<T> table, RowsView<computed_type<T> const> gradients, bool skips, computed_type<T> scale,
                         Rule const& rule, device::Slots<S...> const& element_slots,
                         device::Slots<R...> const& row_slots) const;

 private:
  CudaQueue queue_;
};

template <class T>
std::span<T const> Shown<T, CudaSpace>::of(RowOps<CudaSpace> const& ops, std::span<T const> host) {
  if (stale_) {
    std::byte* const room = upload_.room(host.size_bytes());
    if (!host.empty()) std::memcpy(room, host.data(), host.size_bytes());
    upload_.start(ops.stream());
    stale_ = false;
  }
  return {reinterpret_cast<T const*>(upload_.there()), host.size()};
}

template <class Index>
device::GroupingView<Index> Shown<Grouping<Index>, CudaSpace>::groups_at(std::byte* block, std::size_t named,
                                                                         std::size_t count) {
  auto* const numbers = reinterpret_cast<std::uint32_t*>(block + named * sizeof(Index));
  return {reinterpret_cast<Index*>(block),
          numbers,
          numbers + named + 1,
          numbers + named + 1 + count,
          numbers + named + 1 + 2 * count,
          static_cast<std::uint32_t>(count)};
}

template <class Index>
device::ShownGroups<Index> const& Shown<Grouping<Index>, CudaSpace>::of(RowOps<CudaSpace> const& ops,
                                                                        Grouping<Index> const& host) {
  if (!stale_) return shown_;
  std::size_t const named = host.size(), count = host.count();
  std::byte* const room = upload_.room(bytes_of(named, count));
  auto const here = groups_at(room, named, count);
  std::copy_n(host.keys.data(), named, here.keys);
  std::copy_n(host.offsets.data(), named + 1, here.offsets);
  std::copy_n(host.order.data(), count, here.order);
  std::copy_n(host.inverse.data(), count, here.inverse);
  *here.distinct = static_cast<std::uint32_t>(named);
  // What operations read of it they do not write.
  shown_ = {groups_at(const_cast<std::byte*>(upload_.start(ops.stream())), named, count), *here.distinct};
  stale_ = false;
  return shown_;
}

template <class Index>
void Shown<Grouping<Index>, CudaSpace>::make(RowOps<CudaSpace> const& ops, std::span<Index const> keys, std::int64_t bound) {
  count_ = keys.size(), bound_ = bound;
  made_.resize_with_slack(bytes_of(count_, count_));
  brought_.resize_with_slack(made_.size());
  if (!brought_at_) brought_at_.emplace();
  ops.group_keys(keys.data(), bound + 1, groups_at(made_.data(), count_, count_));
  device::copy(brought_.data(), made_.data(), made_.size(), cudaMemcpyDeviceToHost, ops.stream());
  brought_at_->record(ops.stream());
}

template <class Index>
void Shown<Grouping<Index>, CudaSpace>::take(RowOps<CudaSpace> const& ops, Grouping<Index>& host) {
  std::size_t const n = count_;
  auto const there = groups_at(made_.data(), n, n), here = groups_at(brought_.data(), n, n);
  std::size_t named = *here.distinct;
  named -= here.keys[named - 1] == bound_;
  host.keys.resize_with_slack(named);
  host.offsets.resize_with_slack(named + 1);
  host.order.resize_with_slack(n);
  host.inverse.resize_with_slack(n);
  std::copy_n(here.keys, named, host.keys.data());
  std::copy_n(here.offsets, named + 1, host.offsets.data());
  std::copy_n(here.order, n, host.order.data());
  std::copy_n(here.inverse, n, host.inverse.data());
  shown_ = {there, static_cast<std::uint32_t>(named)};
  if (named < *here.distinct) {
    *here.distinct = static_cast<std::uint32_t>(named);
    device::copy(there.distinct, here.distinct, sizeof(std::uint32_t), cudaMemcpyHostToDevice, ops.stream());
  }
  stale_ = false;
}

// All answers lie in one block of memory, and come to pinned memory in one copy, by which a step waits for them once at most.
// Rows are of float or double, and lie on the device.
template <>
class Findings<CudaSpace> {
 public:
  // Forgets what was sought, and keeps the memory.
  void clear() { sought_.clear(), bytes_ = 0; }
  // Local. Remembers what is sought of `rows`, and returns the number by which the answer is asked for.
  template <class T>
  std::uint32_t seek(Sought what, RowsView<T const> rows) {
    sought_.push_back({what, rows, bytes_});
    bytes_ += what == Sought::squares ? sizeof(double) : sizeof(NonFiniteElement);
    return static_cast<std::uint32_t>(sought_.size() - 1);
  }
  // Starts all searches in the order of the stream, and the copy that brings their answers; called once after the last
  // `seek`. Throws Error (device, out_of_memory).
  void start(RowOps<CudaSpace> const& ops) {
    if (sought_.empty()) return;
    there_.resize_with_slack(bytes_);
    here_.resize_with_slack(bytes_);
    if (!brought_at_) brought_at_.emplace();
    for (Search const& search : sought_) std::visit([&](auto rows) { look(ops, search, rows); }, search.rows);
    device::copy(here_.data(), there_.data(), bytes_, cudaMemcpyDeviceToHost, ops.stream());
    brought_at_->record(ops.stream());
  }
  // Whether the answers are here, asked without waiting; true where nothing was sought. Throws Error (device).
  bool arrived() const { return sought_.empty() || brought_at_->reached(); }

  // Of all rows together, in double, with the bits of the host's. Only once it has `arrived`.
  template <class>
  double sum_of_squares(std::size_t number) const {
    return *here<double>(number);
  }
  // The first in the order of rows; none where all are finite. Only once it has `arrived`.
  template <class>
  std::optional<NonFiniteElement> first_non_finite(std::size_t number) const {
    NonFiniteElement const first = *here<NonFiniteElement>(number);
    if (first.row == std::visit([](auto rows) { return rows.rows; }, sought_[number].rows)) return std::nullopt;
    return first;
  }

 private:
  // One thing that is sought, and where its answer lies in the block of memory, in bytes from its beginning.
  struct Search {
    Sought what;
    std::variant<RowsView<float const>, RowsView<double const>> rows;
    std::size_t place;
  };
  // Where a kernel writes an answer, on the device.
  template <class T>
  T* there(Search const& search) {
    return reinterpret_cast<T*>(there_.data() + search.place);
  }
  // Where the host reads it.
  template <class T>
  T const* here(std::size_t number) const {
    return reinterpret_cast<T const*>(here_.data() + sought_[number].place);
  }
  // Puts one search in the stream.
  template <class T>
  void look(RowOps<CudaSpace> const& ops, Search const& search, RowsView<T const> rows) {
    if (search.what == Sought::squares) ops.sum_of_row_squares(rows, there<double>(search));
    else ops.first_non_finite(rows, there<NonFiniteElement>(search));
  }

  std::vector<Search> sought_;
  std::size_t bytes_ = 0;
  Buffer<std::byte, CudaSpace> there_;
  Buffer<std::byte, PinnedSpace> here_;
  std::optional<CudaEvent> brought_at_;
};

// Work on a queue's memory, as exchanges find it. Copies `bytes` within device memory, in the order of the queue's stream.
inline void copy_bytes(CudaQueue const& queue, void* to, void const* from, std::size_t bytes) {
  RowOps<CudaSpace>{queue}.copy_bytes(to, from, bytes);
}
// Element by element, `out += in`, of n contiguous elements, in the order of the queue's stream: sums over ranks are formed
// by it.
template <class T>
void add_elements(CudaQueue const& queue, T* out, T const* in, std::size_t n) {
  RowOps<CudaSpace>{queue}.add_to(out, in, static_cast<std::int64_t>(n));
}
// Widens n contiguous numbers of 16 bits, in the order of the queue's stream: NarrowWire decodes so what has come.
template <class W>
void widen_elements(CudaQueue const& queue, W const* in, std::size_t n, computed_type<W>* out) {
  RowOps<CudaSpace>{queue}.widen_elements(in, n, out);
}
// Rounds n contiguous numbers to 16 bits, likewise: NarrowWire encodes so what is sent.
template <class W>
void narrow_elements(CudaQueue const& queue, computed_type<W> const* in, std::size_t n, W* out) {
  RowOps<CudaSpace>{queue}.narrow_elements(in, n, out);
}

}  // namespace parallax
