// RowOps<CudaSpace>: the row operations behind variables on a CUDA device, for every compiler. Functions that launch kernels
// are declared here; kernel/cuda.cuh has them for files compiled by nvcc, one of which instantiates them for all others
// (PARALLAX_CUDA_INSTANTIATE). Without one the linker misses functions of parallax::RowOps<parallax::CudaSpace>. Programs
// include this header in any file with variables on a device, for any compiler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/short_float.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/findings.hpp"
#include "parallax/detail/kernel/host/bags.hpp"
#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/memory/cuda/capture.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax::inline v0_2 {
// Works on the caller's device memory, in the order of the queue's stream; scratch comes from the queue's memory. `await`,
// `wait`, and by it `read` and copies to or from the host's memory, wait for the stream. Nothing else waits. Everything may
// throw Error (device, out_of_memory). The bits are equal to those by RowOps<HostSpace>.
template <>
struct RowOps<CudaSpace> {
  // The space of the memory worked on.
  using space = CudaSpace;

  // Most indices of the host's, in one batch, that are planned by the host: it waits for no device, and an index takes it some
  // 25 ns. More are sent to the device, where they take next to nothing, and the host waits for the lengths of their runs.
  static constexpr std::size_t most_planned_by_host = 8'192;

  // Made by variables, of their communicator's queue. The queue's stream and resource outlive this object.
  explicit RowOps(CudaQueue queue) : queue_{queue} {}
  // Returns the stream that orders all work here: the queue's, but while a `start` copies gradients in its caller's.
  cudaStream_t stream() const { return queue_.at_hand(); }

  // Copies `bytes` within device memory; the ranges do not overlap.
  void copy_bytes(void* to, void const* from, std::size_t bytes) const {
    device::copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream());
  }
  // Copies n elements from the host's memory. Waits, as `wait` does: `from` may then be used again.
  template <class T>
  void from_host(T* to, T const* from, std::size_t n) const {
    device::copy(to, from, n * sizeof(T), cudaMemcpyHostToDevice, stream());
    wait();
  }
  // Copies n elements to the host's memory. Waits, as `wait` does: they are then there.
  template <class T>
  void to_host(T* to, T const* from, std::size_t n) const {
    device::copy(to, from, n * sizeof(T), cudaMemcpyDeviceToHost, stream());
    wait();
  }
  // Returns one value of device memory, after a `wait`.
  template <class T>
  T read(T const* value) const {
    T copy{};
    to_host(&copy, value, 1);
    return copy;
  }
  // Blocks the thread until the stream has done all its work, without a deadline. Throws Error (misuse) while the stream is
  // captured.
  void wait() const {
    device::refuse_captured(stream());
    device::check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
  }
  // Blocks the thread until the event, recorded in the stream, is reached; under the deadline of the queue's communicator, if
  // there is one, which then throws its errors.
  void await(CudaEvent const& event) const { queue_.await(event); }

  // Returns a rule of the step at hand in the form taken by `apply_rows` and its like. In a captured step, `state` gives by
  // `next_rule` the rule of the steps after it, and outlives the capture.
  template <class Rule, class State>
  device::PlacedRule<Rule> placed(Rule const& rule, State const& state) const {
    return {rule, place<Rule>(state)};
  }
  // Returns null; in a captured step, the place of the state's rule in device memory, which the capture owns.
  template <class Rule, class State>
  Rule const* place(State const& state) const {
    auto* const capture = device::Capture::of(stream());
    return capture ? capture->template place<Rule>(state) : nullptr;
  }
  // The type returned by `placed`.
  template <class Rule>
  using Placed = device::PlacedRule<Rule>;
  // The type of ages taken by `settle_rows`.
  template <class Rule>
  using Ages = device::RowAges<Rule>;

  // Copies n values to device memory, aligned to 4 bytes as their size is, by kernels that carry them: `from` is free at once.
  template <class T>
  void put(T* to, T const* from, std::size_t n) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 4 == 0 && sizeof(T) <= device::ByteList::capacity);
    constexpr std::size_t most = device::ByteList::capacity / sizeof(T);
    for (std::size_t at = 0; at < n; at += most) {
      device::ByteList list;
      list.count = static_cast<std::uint32_t>(std::min(most, n - at) * sizeof(T));
      std::memcpy(list.bytes, from + at, list.count);
      put_bytes(list, reinterpret_cast<std::byte*>(to + at));
    }
  }

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
    // Makes an empty list, to be put in the stream of the queue at hand when it is started.
    explicit Copies(CudaQueue const& queue) : queue_{queue} {}
    // Remembers a copy of `bytes` within device memory. Throws Error (device) if a full list of them could not be started.
    void add(void* to, void const* from, std::size_t bytes) {
      if (list_.full()) start();
      list_.add({from, to, bytes});
    }
    // Starts the kernel for the copies since the last one; nothing for none. Throws Error (device).
    void start() {
      if (list_.count > 0) RowOps{queue_}.copy_all(list_);
      list_.count = 0, list_.most_bytes = 0;
    }

   private:
    CudaQueue queue_;
    device::CopyList list_;
  };
  // Returns an empty list of copies, to be put in this stream.
  Copies copies() const { return Copies{queue_}; }
  // Makes the copies of a list within device memory, by one kernel.
  template <class List>
  void copy_all(List const& list) const;
  // Writes the bytes of a list, carried by the kernel, to device memory at a multiple of 4.
  template <class List>
  void put_bytes(List const& list, std::byte* to) const;

  // Returns a view of the tables of a stack for `place_ids`: their first rows and the begins of bags, as many for each; of one
  // table both are empty. In device memory.
  template <class Index>
  static device::StackView<Index> stack(std::span<Index const> firsts, std::span<std::uint32_t const> begins) {
    if (firsts.empty()) return {};
    auto const tables = static_cast<std::uint32_t>(firsts.size() - 1);
    return {firsts.data(), begins.data(), tables, static_cast<std::uint32_t>(begins.size() - 1) / tables};
  }
  // Computes keys of n ids: bases[owner] + local row, as the layout says; each is a row of its table of the stack. One outside
  // has the key of the row chosen by its hash, or, if it does not count for one, the number of all rows.
  template <class Id, class Layout, class Index>
  void place_ids(Id const* ids, std::size_t n, Layout const& layout, Index const* bases, device::StackView<Index> const& stack,
                 bool hashes, Index* keys) const;
  // Returns how many numbers `take_offsets` leaves behind the begins of bags.
  static constexpr std::size_t blocks_of_offsets(std::size_t bags) { return device::blocks_of_offsets(bags); }
  // Sets begins[b] = offsets[b], for `bags` and the end of the last, at most n, and behind them `blocks_of_offsets(bags)`
  // counts of wrong offsets: zeros if all ascend from 0 to n. In device memory.
  template <class Offset>
  void take_offsets(Offset const* offsets, std::size_t bags, std::size_t n, std::uint32_t* begins) const;
  // Sets rows[i] = the row of the table behind keys[i], as the layout says: the inverse of place_ids. Keys are below the number
  // of rows. There are `most` of them, or, unless `count` is null, *count, in device memory.
  template <class Layout, class Index>
  void rows_of_keys(Index const* keys, std::size_t most, std::uint32_t const* count, Layout const& layout, Index const* bases,
                    Index* rows) const;
  // Sets out[i] = keys[i] for the first *count of `most` keys, and = `none` for the others. In device memory.
  template <class Index>
  void take_keys(Index const* keys, std::size_t most, std::uint32_t const* count, Index none, Index* out) const;
  // Groups `out.count` keys in [0, bound), as unique_with_inverse does; `keys` and `out` lie in device memory.
  template <class Index>
  void group_keys(Index const* keys, std::int64_t bound, device::GroupingView<Index> const& out) const;

  // Cuts groups in device memory: told[k] = the number of the first distinct key >= bases[first + k * stride], for k below
  // `cuts`; behind them the number of distinct keys below `bound`, the number of positions of the others (one key at most), and
  // the sum of `wrongs`, at most 256 numbers. From here on this key is no distinct one; no base is above it. In device memory.
  template <class Index>
  void cut_groups(device::GroupingView<Index> const& groups, Index const* bases, std::size_t first, std::size_t stride,
                  std::size_t cuts, std::int64_t bound, std::span<std::uint32_t const> wrongs, std::uint32_t* told) const;
  // Pads cut groups, by `told` (see cut_groups): each owner's distinct keys, and behind them `bound`, capacity places in all,
  // and one more, bound + 1 if the batch misfits, else bound. `to` has places for all owners and shares the order of `from`; a
  // place without a key has an empty run; the inverse of positions without a place is the number of places. With wrong offsets
  // no position has one. `tally` is added to.
  template <class Index>
  void pad_groups(device::GroupingView<Index> const& from, std::uint32_t const* told, device::Padding const& padding,
                  std::int64_t bound, device::GroupingView<Index> const& to, device::PaddingTally* tally) const;
  // Drops the padding of groups of keys from all ranks: `bound` and keys above it are no distinct keys from here on, and if a
  // rank has sent bound + 1 there is none at all.
  template <class Index>
  void drop_padding(device::GroupingView<Index> const& groups, std::int64_t bound) const;
  // Sets out[k - first] = the number of positions of distinct key k, for k in [first, last) as far as there are keys.
  template <class Index>
  void run_lengths(device::GroupingView<Index> const& groups, std::size_t first, std::size_t last, std::uint32_t* out) const;
  // Sets out[k - first] = the sum of `counts`, one for each position, over the positions of distinct key k, for k in [first,
  // last); 1, a divisor without effect, if there is no such key.
  template <class Index>
  void sum_counts(std::span<std::uint32_t const> counts, device::GroupingView<Index> const& groups, std::size_t first,
                  std::size_t last, std::uint32_t* out) const;

  // Returns, by position of a batch, the number of its distinct key, a view of `groups` in device memory, for gather_rows.
  template <class Index>
  static std::span<std::uint32_t const> inverse(device::GroupingView<Index> const& groups) {
    return {groups.inverse, groups.count};
  }
  // Returns the positions of a batch, run after run, a view of `groups` in device memory, for gather_rows.
  template <class Index>
  static std::span<std::uint32_t const> order(device::GroupingView<Index> const& groups) {
    return {groups.order, groups.count};
  }

  // Sets row k - first of out, packed, = the sum of the rows of `values` at the positions of distinct key k, for k in [first,
  // last); zeros if there is no such key. Scratch: a row for 64 positions.
  template <class T, class Index>
  void coalesce(RowsView<std::type_identity_t<T> const> values, device::GroupingView<Index> const& groups, std::size_t first,
                std::size_t last, T* out) const;
  // Sets row i of out = table row `directory(indices[i])`, zeros if it is beyond the table; indices may repeat.
  template <class T, class Index>
  void gather_rows(RowsView<std::type_identity_t<T> const> table, std::span<Index> indices,
                   Directory<std::remove_const_t<Index>> directory, T* out) const;
  // Gathers rows as gather_rows does, from a table of numbers of 16 bits, widened.
  template <class W, class Index>
  void widen_rows(RowsView<W const> table, std::span<Index> indices, Directory<std::remove_const_t<Index>> directory,
                  computed_type<W>* out) const;
  // Sets table row `directory(indices[i])` = row i of rows. The indices differ, although the host takes equal ones too.
  template <class T, class Index>
  void scatter_rows(RowsView<T> table, std::span<Index> indices, Directory<std::remove_const_t<Index>> directory,
                    std::type_identity_t<T> const* rows) const;
  // Copies rows [first, last) to out, packed: by one copy.
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

  // Sums as `coalesce` does, term i in place of row i, terms never stored; everything named by `terms` lies on the device.
  template <class T, class Index>
  void coalesce_terms(RowTerms<T> const& terms, device::GroupingView<Index> const& groups, std::size_t first, std::size_t last,
                      T* out) const {
    sum_terms(terms, groups.order, groups.offsets, first, last, out, groups.inverse, groups.count);
  }
  // Sets row k of out = the sum of the terms `offsets[k]` … `offsets[k + 1] - 1`, zeros if there are none: bags pooled.
  template <class T>
  void sum_term_runs(RowTerms<T> const& terms, std::span<std::uint32_t const> offsets, T* out) const {
    sum_terms(terms, nullptr, offsets.data(), 0, offsets.size() - 1, out, nullptr, 0);
  }
  // Places a batch in bags as the host's place_in_bags does; everything lies on the device. If one of `wrongs`, counts of wrong
  // offsets, is not 0 bags begin anywhere, and no index is in one.
  template <class T, class Index>
  void place_in_bags(std::span<std::uint32_t const> begins, device::GroupingView<Index> const& groups, std::uint32_t* of_index,
                     std::uint32_t* kept, T* shares, std::span<std::uint32_t const> wrongs) const;
  // Sets row i of out = the term `positions[i]` alone, times its factor.
  template <class T>
  void gather_terms(RowTerms<T> const& terms, std::span<std::uint32_t const> positions, T* out) const {
    sum_terms(terms, positions.data(), nullptr, 0, positions.size(), out, nullptr, 0);
  }
  // Sums runs [first, last) of terms to out, in `order` unless it is null; with null offsets each term is a run. Of a grouping
  // of `count` positions the `inverse` is given: then chunks of 64 terms of a run are summed side by side, by scratch.
  template <class T>
  void sum_terms(RowTerms<T> const& terms, std::uint32_t const* order, std::uint32_t const* offsets, std::size_t first,
                 std::size_t last, T* out, std::uint32_t const* inverse, std::size_t count) const;

  // Copies n contiguous elements within device memory.
  template <class T>
  void copy_from(T* out, std::type_identity_t<T> const* in, std::int64_t n) const {
    copy_bytes(out, in, static_cast<std::size_t>(n) * sizeof(T));
  }
  // Adds element by element, `out += in`, n contiguous elements.
  template <class T>
  void add_to(T* out, std::type_identity_t<T> const* in, std::int64_t n) const;
  // Widens n contiguous numbers of 16 bits, from `in` to `out`.
  template <class W>
  void widen_elements(W const* in, std::size_t n, computed_type<W>* out) const;
  // Rounds n contiguous numbers to 16 bits, from `in` to `out`.
  template <class W>
  void narrow_elements(computed_type<W> const* in, std::size_t n, W* out) const;
  // Divides n contiguous elements by `divisor`, by true divisions.
  template <class T>
  void scale_down(T* values, std::int64_t n, std::type_identity_t<T> divisor) const;
  // Divides row i of `values`, of `width` elements, by `counts[i]`. Kernels must be able to access both.
  template <class T>
  void scale_rows_down(T* values, std::int64_t width, std::span<std::uint32_t const> counts) const;
  // Divides each of the rows, of width + 1 elements, by its last element, if more than one; the last one itself stays.
  template <class T>
  void scale_counted_rows_down(T* values, std::int64_t rows, std::int64_t width) const;

  // Sets *out, in device memory, = the sum of all rows' squares, as defined by Findings.
  template <class T>
  void sum_of_row_squares(RowsView<T const> rows, double* out) const;
  // Sets *out, in device memory, = the first non-finite element in the order of rows; one of row `rows.rows` if all are finite.
  template <class T>
  void first_non_finite(RowsView<T const> rows, NonFiniteElement* out) const;

  // Computes a rule's measures of n elements, whose slots may move: a number of `out`, in device memory, for each sum.
  template <class T, class Rule, class... S>
  void measure_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, std::type_identity_t<T> scale,
                        Rule const& rule, double* out, S*... slot) const;
  // The type of the rule made by `rule.finish` of K sums.
  template <std::size_t K, class Rule>
  using Finished = decltype(std::declval<device::BareRule<Rule> const&>().finish(Measures<K>{}, std::int64_t{1}));
  // Returns the rule made of all parts' sums, of n elements together, by a kernel of one thread: `parts` lie in device memory,
  // and so does the rule, open to kernels. apply_elements takes it as a rule; the caller owns it, and may let it go after
  // putting it to use in the same stream.
  template <std::size_t K, class Rule>
  DeviceBuffer<Finished<K, Rule>> finish_rule(Rule const& rule, MeasuredParts<K> parts, std::int64_t n) const;

  // Calls `rule(parameter, gradient, slots…)` for each of n elements, as the host's does. `scale`: a T, Unscaled or
  // `Averaged<T>`; `rule`: an optimizer's, or the result of finish_rule.
  template <class T, class Scale, class Rule, class... S>
  void apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, Scale scale, Rule const& rule,
                      S*... slot) const;

  // Returns views of a rule's slots, as apply_rows and its like take them.
  template <class... S>
  static device::Slots<S...> slot_tables(RowsView<S>... tables) {
    return device::Slots<S...>{tables...};
  }
  // Applies the rule to table rows `directory(indices[i])`, by the packed rows of `gradients`. A table of numbers of 16 bits is
  // rounded as it is written; gradients and slots have the type of computation. The indices differ; if `count`, of device
  // memory, is not null, only the first *count are some. Rows above 48 KiB of a rule that measures: Error (invalid_argument).
  template <class T, class Index, class Rule, class ElementSlots, class RowSlots>
  void apply_rows(std::span<Index> indices, std::uint32_t const* count, Directory<std::remove_const_t<Index>> directory,
                  RowsView<T> table, computed_type<T> const* gradients, computed_type<T> scale, Rule const& rule,
                  ElementSlots const& element_slots, RowSlots const& row_slots) const;
  // Sums as `coalesce` does, divides, and applies as apply_rows does, in one: sums of the rows of `values` by `groups`, never
  // stored. They are divided by `divisor`, or by `counts`, one for each distinct key, in device memory, unless null.
  template <class T, class Index, class Rule, class ElementSlots, class RowSlots>
  void apply_runs(RowsView<computed_type<T> const> values, device::GroupingView<Index> const& groups,
                  Directory<Index> directory, computed_type<T> divisor, std::uint32_t const* counts, RowsView<T> table,
                  Rule const& rule, ElementSlots const& element_slots, RowSlots const& row_slots) const;
  // Applies the rule to all rows of `table`, in order, by gradients `gradients.stride` apart. With `skips` the number behind a
  // gradient says how many named its row: if none did, the row is left alone.
  template <class T, class Rule, class ElementSlots, class RowSlots>
  void apply_spaced_rows(RowsView<T> table, RowsView<computed_type<T> const> gradients, bool skips, computed_type<T> scale,
                         Rule const& rule, ElementSlots const& element_slots, RowSlots const& row_slots) const;

  // Takes table rows `directory(indices[i])` through the steps missed by them, as `ages` says, each with a gradient of zero:
  // the bits of as many apply_rows. The indices differ; if `count`, of device memory, is not null, only the first *count are
  // some. Rules that measure rows measure them in every step.
  template <class T, class Index, class Rule, class ElementSlots, class RowSlots>
  void settle_rows(std::span<Index> indices, std::uint32_t const* count, Directory<std::remove_const_t<Index>> directory,
                   device::RowAges<Rule> const& ages, RowsView<T> table, ElementSlots const& element_slots,
                   RowSlots const& row_slots) const;
  // Settles all rows of `table`, in order, as settle_rows does; `ages.settled` begins with the first row's.
  template <class T, class Rule, class ElementSlots, class RowSlots>
  void settle_all_rows(device::RowAges<Rule> const& ages, RowsView<T> table, ElementSlots const& element_slots,
                       RowSlots const& row_slots) const;

 private:
  CudaQueue queue_;
};

// Copies `bytes` within device memory, in the order of the queue's stream, for exchanges; the ranges do not overlap.
inline void copy_bytes(CudaQueue const& queue, void* to, void const* from, std::size_t bytes) {
  RowOps<CudaSpace>{queue}.copy_bytes(to, from, bytes);
}
// Returns an empty list of copies within device memory, for one kernel in the order of the queue's stream.
inline RowOps<CudaSpace>::Copies copies_of(CudaQueue const& queue) { return RowOps<CudaSpace>::Copies{queue}; }
// Adds element by element, `out += in`, n contiguous elements, in the order of the queue's stream: used for sums over ranks.
template <class T>
void add_elements(CudaQueue const& queue, T* out, T const* in, std::size_t n) {
  RowOps<CudaSpace>{queue}.add_to(out, in, static_cast<std::int64_t>(n));
}
// Widens n contiguous numbers of 16 bits, in the order of the queue's stream: the decoding of NarrowWire.
template <class W>
void widen_elements(CudaQueue const& queue, W const* in, std::size_t n, computed_type<W>* out) {
  RowOps<CudaSpace>{queue}.widen_elements(in, n, out);
}
// Rounds n contiguous numbers to 16 bits, in the order of the queue's stream: the encoding of NarrowWire.
template <class W>
void narrow_elements(CudaQueue const& queue, computed_type<W> const* in, std::size_t n, W* out) {
  RowOps<CudaSpace>{queue}.narrow_elements(in, n, out);
}

}  // namespace parallax

// Operands of operations beside rows: it needs them complete.
#include "parallax/detail/kernel/cuda/findings.hpp"
#include "parallax/detail/kernel/cuda/groups.hpp"
#include "parallax/detail/kernel/cuda/padded_batches.hpp"
#include "parallax/detail/kernel/cuda/shown.hpp"
