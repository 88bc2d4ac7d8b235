// RowOps<CudaSpace>: the row operations that variables on a CUDA device are made of, for every compiler. What launches kernels
// is declared here; kernel/cuda.cuh has it for files that nvcc compiles, one of which instantiates it for all others
// (PARALLAX_CUDA_INSTANTIATE). Without that the linker misses functions of parallax::RowOps<parallax::CudaSpace>.
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

#include "parallax/core/view.hpp"
#include "parallax/kernel/cuda/operands.hpp"
#include "parallax/kernel/findings.hpp"
#include "parallax/kernel/host_bags.hpp"
#include "parallax/kernel/row_ops.hpp"
#include "parallax/memory/buffer.hpp"
#include "parallax/memory/cuda.hpp"

namespace parallax {
namespace cuda {

// A grouping as operations find it, and how many distinct keys it has, which the host knows.
template <class Index>
struct ShownGroups {
  Groups<Index> groups;
  std::uint32_t distinct = 0;
};

// Owns. Bytes on their way to the device, over pinned memory that is written again once the device has read it.
class Upload {
 public:
  // Room for so many bytes, to be filled. Waits for the last `start`, should the device not have come that far.
  std::byte* room(std::size_t bytes) {
    if (reached_) reached_->synchronize();
    pinned_.resize_with_slack(bytes);
    device_.resize_with_slack(bytes);
    return pinned_.data();
  }
  // Where they will be, for what is put in the stream from now on.
  std::byte const* start(cudaStream_t stream) {
    if (!reached_) reached_.emplace();
    if (!pinned_.empty())
      check(cudaMemcpyAsync(device_.data(), pinned_.data(), pinned_.size(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    reached_->record(stream);
    return device_.data();
  }
  std::byte const* there() const { return device_.data(); }

 private:
  Buffer<std::byte, PinnedSpace> pinned_;
  Buffer<std::byte, CudaSpace> device_;
  std::optional<CudaEvent> reached_;
};

}  // namespace cuda

// Elements of the host's memory on the device.
template <class T>
class Shown<T, CudaSpace> {
 public:
  std::span<T const> of(RowOps<CudaSpace> const& ops, std::span<T const> host);
  void renew() { stale_ = true; }

 private:
  cuda::Upload upload_;
  bool stale_ = true;
};

// A grouping of the host's on the device, sent in one copy; or one that the device has made, for the host.
template <class Index>
class Shown<Grouping<Index>, CudaSpace> {
 public:
  cuda::ShownGroups<Index> const& of(RowOps<CudaSpace> const& ops, Grouping<Index> const& host);
  void renew() { stale_ = true; }
  // Groups keys in [0, bound] there, and brings the groups to the host, where they are `taken` once they have `arrived`. The keys
  // that are `bound`, the last run, are no group: only `order` and `inverse` have them.
  void make(RowOps<CudaSpace> const& ops, std::span<Index const> keys, std::int64_t bound);
  bool arrived() const { return brought_at_->reached(); }
  void take(RowOps<CudaSpace> const& ops, Grouping<Index>& host);

 private:
  // Of so many keys in one block of memory, one array after the other; of the distinct keys there are `named`.
  static cuda::Groups<Index> groups_at(std::byte* block, std::size_t named, std::size_t count);
  static std::size_t bytes_of(std::size_t named, std::size_t count) {
    return named * sizeof(Index) + (named + 2 + 2 * count) * sizeof(std::uint32_t);
  }

  cuda::Upload upload_;
  Buffer<std::byte, CudaSpace> made_;
  Buffer<std::byte, PinnedSpace> brought_;
  std::optional<CudaEvent> brought_at_;
  std::size_t count_ = 0;
  std::int64_t bound_ = 0;
  cuda::ShownGroups<Index> shown_;
  bool stale_ = true;
};

// Works on device memory that the caller owns, in the order of the queue's stream; scratch comes from its memory. `wait`
// and what copies to or from the host's memory wait for the stream, nothing else does. Everything may throw Error (device,
// out_of_memory). The bits are those of RowOps<HostSpace>.
template <>
struct RowOps<CudaSpace> {
  using space = CudaSpace;

  explicit RowOps(CudaQueue queue) : queue_{queue} {}
  cudaStream_t stream() const { return queue_.stream; }

  void copy_bytes(void* to, void const* from, std::size_t bytes) const {
    cuda::copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream());
  }
  // Waits until `from`, or `to`, may be used again.
  template <class T>
  void from_host(T* to, T const* from, std::size_t n) const {
    cuda::copy(to, from, n * sizeof(T), cudaMemcpyHostToDevice, stream());
    wait();
  }
  template <class T>
  void to_host(T* to, T const* from, std::size_t n) const {
    cuda::copy(to, from, n * sizeof(T), cudaMemcpyDeviceToHost, stream());
    wait();
  }
  template <class T>
  T read(T const* value) const {
    T copy{};
    to_host(&copy, value, 1);
    return copy;
  }
  void wait() const { cuda::check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

  void clear(void* memory, std::size_t bytes) const {
    if (bytes > 0) cuda::check(cudaMemsetAsync(memory, 0, bytes, stream()), "cudaMemsetAsync");
  }
  template <class T>
  void fill(T* values, std::size_t n, T value) const;

  // Many copies, by one kernel.
  struct CopyRoom {
    std::vector<cuda::Copy> jobs;
    cuda::Upload upload;
  };
  class Copies {
   public:
    Copies(RowOps const& ops, CopyRoom& room) : ops_{&ops}, room_{&room} { room.jobs.clear(); }
    void add(void* to, void const* from, std::size_t bytes) { room_->jobs.push_back({from, to, bytes}); }
    void start() {
      auto& jobs = room_->jobs;
      if (jobs.empty()) return;
      std::uint64_t most = 0;
      for (cuda::Copy const& job : jobs) most = std::max(most, job.bytes);
      std::memcpy(room_->upload.room(jobs.size() * sizeof(cuda::Copy)), jobs.data(), jobs.size() * sizeof(cuda::Copy));
      auto const* const there = reinterpret_cast<cuda::Copy const*>(room_->upload.start(ops_->stream()));
      ops_->copy_all(there, static_cast<std::uint32_t>(jobs.size()), most);
    }

   private:
    RowOps const* ops_;
    CopyRoom* room_;
  };
  Copies copies(CopyRoom& room) const { return {*this, room}; }
  // `count` of them, which lie in device memory; the largest has `most` bytes.
  template <class Job>
  void copy_all(Job const* jobs, std::uint32_t count, std::uint64_t most) const;

  // Keys of n ids: bases[owner] + local row, as the layout says. One outside [0, rows) has the key of the row that its hash
  // chooses, or, where it does not count for one, `rows`.
  template <class Id, class Layout, class Index>
  void place_ids(Id const* ids, std::size_t n, Layout const& layout, Index const* bases, bool hashes, Index* keys) const;
  // Groups keys in [0, bound); `out.count` of them.
  template <class Index>
  void group_keys(Index const* keys, std::int64_t bound, cuda::Groups<Index> const& out) const;

  template <class Index>
  static std::span<std::uint32_t const> inverse(cuda::ShownGroups<Index> const& shown) {
    return {shown.groups.inverse, shown.groups.count};
  }
  template <class Index>
  static std::span<std::uint32_t const> order(cuda::ShownGroups<Index> const& shown) {
    return {shown.groups.order, shown.groups.count};
  }

  template <class T, class Index>
  void coalesce(RowsView<std::type_identity_t<T> const> values, cuda::ShownGroups<Index> const& shown, std::size_t first,
                std::size_t last, T* out) const;
  template <class T, class I>
  void gather_rows(RowsView<std::type_identity_t<T> const> table, std::span<I> indices,
                   Directory<std::remove_const_t<I>> directory, T* out) const;
  template <class T, class I>
  void scatter_rows(RowsView<T> table, std::span<I> indices, Directory<std::remove_const_t<I>> directory,
                    std::type_identity_t<T> const* rows) const;
  template <class T>
  void pack_rows(RowsView<std::type_identity_t<T> const> rows, std::size_t first, std::size_t last, T* out) const {
    auto const row_bytes = static_cast<std::size_t>(rows.width) * sizeof(T);
    if (rows.contiguous()) return copy_bytes(out, rows.row(static_cast<std::int64_t>(first)), (last - first) * row_bytes);
    for (std::size_t i = first; i < last; ++i, out += rows.width)
      copy_bytes(out, rows.row(static_cast<std::int64_t>(i)), row_bytes);
  }

  template <class T, class Index>
  void coalesce_terms(RowTerms<T> const& terms, cuda::ShownGroups<Index> const& shown, std::size_t first, std::size_t last,
                      T* out) const {
    sum_terms(terms, shown.groups.order, shown.groups.offsets, first, last, out);
  }
  template <class T>
  void sum_term_runs(RowTerms<T> const& terms, std::span<std::uint32_t const> offsets, T* out) const {
    sum_terms(terms, nullptr, offsets.data(), 0, offsets.size() - 1, out);
  }
  template <class T>
  void gather_terms(RowTerms<T> const& terms, std::span<std::uint32_t const> positions, T* out) const {
    sum_terms(terms, positions.data(), nullptr, 0, positions.size(), out);
  }
  // Runs [first, last) of terms in an order, where it is not null; without offsets each term is a run.
  template <class T>
  void sum_terms(RowTerms<T> const& terms, std::uint32_t const* order, std::uint32_t const* offsets, std::size_t first,
                 std::size_t last, T* out) const;

  template <class T>
  void copy_from(T* out, std::type_identity_t<T> const* in, std::int64_t n) const {
    copy_bytes(out, in, static_cast<std::size_t>(n) * sizeof(T));
  }
  template <class T>
  void add_to(T* out, std::type_identity_t<T> const* in, std::int64_t n) const;
  template <class T>
  void scale_down(T* values, std::int64_t n, std::type_identity_t<T> divisor) const;
  // `counts`: as operations find them.
  template <class T>
  void scale_rows_down(T* values, std::int64_t width, std::span<std::uint32_t const> counts) const;
  template <class T>
  void scale_counted_rows_down(T* values, std::int64_t rows, std::int64_t width) const;

  // *out = the sum of all rows' squares, as Findings has it.
  template <class T>
  void sum_of_row_squares(RowsView<T const> rows, double* out) const;
  // Each of first_candidates places in `out`: the first non-finite element that some threads have met, if they met any, else a
  // row that there is not. The first of all rows is among them.
  template <class T>
  void first_non_finite(RowsView<T const> rows, NonFiniteElement* out) const;
  static constexpr unsigned first_candidates = 64;

  // What a rule measures of n elements, whose slots may move: a number of `out` for each sum.
  template <class T, class Rule, class... S>
  void measure_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients,
                        std::type_identity_t<T> scale, Rule const& rule, double* out, S*... slots) const;
  // The rule that is made of that, where a kernel finds it; apply_elements takes it as a rule.
  template <std::size_t K, class Rule>
  using Finished = decltype(std::declval<Rule const&>().finish(Measures<K>{}, std::int64_t{1}));
  template <std::size_t K, class Rule>
  DeviceBuffer<Finished<K, Rule>> finish_rule(Rule const& rule, MeasuredParts<K> parts, std::int64_t n) const;

  // `scale`: a T, Unscaled or Averaged<T>.
  template <class T, class Scale, class Rule, class... S>
  void apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, Scale scale, Rule const& rule,
                      S*... slots) const;

  template <class... S>
  static cuda::Slots<S...> slots(RowsView<S>... tables) {
    return cuda::Slots<S...>{tables...};
  }
  // The indices differ. `slots` and `row_slots`: by the function above.
  template <class T, class I, class Rule, class... S, class... R>
  void apply_rows(std::span<I> indices, Directory<std::remove_const_t<I>> directory, RowsView<T> table,
                  std::type_identity_t<T> const* gradients, std::type_identity_t<T> scale, Rule const& rule,
                  cuda::Slots<S...> const& element_slots, cuda::Slots<R...> const& row_slots) const;
  // By sums that are never stored, of the rows of `values` by `shown`. `counts`: null, or in device memory.
  template <class T, class Index, class Rule, class... S, class... R>
  void apply_runs(RowsView<std::type_identity_t<T> const> values, cuda::ShownGroups<Index> const& shown,
                  Directory<Index> directory, std::type_identity_t<T> divisor, std::uint32_t const* counts,
                  RowsView<T> table, Rule const& rule, cuda::Slots<S...> const& element_slots,
                  cuda::Slots<R...> const& row_slots) const;
  // All rows of `table`, in order.
  template <class T, class Rule, class... S, class... R>
  void apply_spaced_rows(RowsView<T> table, RowsView<std::type_identity_t<T> const> gradients, bool skips,
                         std::type_identity_t<T> scale, Rule const& rule, cuda::Slots<S...> const& element_slots,
                         cuda::Slots<R...> const& row_slots) const;

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
cuda::Groups<Index> Shown<Grouping<Index>, CudaSpace>::groups_at(std::byte* block, std::size_t named, std::size_t count) {
  auto* const numbers = reinterpret_cast<std::uint32_t*>(block + named * sizeof(Index));
  return {reinterpret_cast<Index*>(block), numbers, numbers + named + 1, numbers + named + 1 + count,
          numbers + named + 1 + 2 * count, static_cast<std::uint32_t>(count)};
}

template <class Index>
cuda::ShownGroups<Index> const& Shown<Grouping<Index>, CudaSpace>::of(RowOps<CudaSpace> const& ops,
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
  cuda::copy(brought_.data(), made_.data(), made_.size(), cudaMemcpyDeviceToHost, ops.stream());
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
    cuda::copy(there.distinct, here.distinct, sizeof(std::uint32_t), cudaMemcpyHostToDevice, ops.stream());
  }
  stale_ = false;
}

// All answers lie in one block of memory, and come to pinned memory in one copy.
template <>
class Findings<CudaSpace> {
 public:
  void clear() { sought_.clear(), bytes_ = 0; }
  template <class T>
  std::uint32_t seek(Sought what, RowsView<T const> rows) {
    sought_.push_back({what, rows, bytes_});
    bytes_ += what == Sought::squares ? sizeof(double) : RowOps<CudaSpace>::first_candidates * sizeof(NonFiniteElement);
    return static_cast<std::uint32_t>(sought_.size() - 1);
  }
  void start(RowOps<CudaSpace> const& ops) {
    if (sought_.empty()) return;
    there_.resize_with_slack(bytes_);
    here_.resize_with_slack(bytes_);
    if (!brought_at_) brought_at_.emplace();
    for (Search const& search : sought_)
      std::visit([&](auto rows) { look(ops, search, rows); }, search.rows);
    cuda::copy(here_.data(), there_.data(), bytes_, cudaMemcpyDeviceToHost, ops.stream());
    brought_at_->record(ops.stream());
  }
  bool arrived() const { return sought_.empty() || brought_at_->reached(); }

  template <class>
  double sum_of_squares(std::size_t number) const {
    return *here<double>(number);
  }
  template <class>
  std::optional<NonFiniteElement> first_non_finite(std::size_t number) const {
    std::span const candidates{here<NonFiniteElement>(number), RowOps<CudaSpace>::first_candidates};
    auto const first = std::min_element(candidates.begin(), candidates.end(), [](auto const& a, auto const& b) {
      return a.row != b.row ? a.row < b.row : a.column < b.column;
    });
    if (first->row == std::visit([](auto rows) { return rows.rows; }, sought_[number].rows)) return std::nullopt;
    return *first;
  }

 private:
  struct Search {
    Sought what;
    std::variant<RowsView<float const>, RowsView<double const>> rows;
    std::size_t place;
  };
  template <class T>
  T* there(Search const& search) { return reinterpret_cast<T*>(there_.data() + search.place); }
  template <class T>
  T const* here(std::size_t number) const { return reinterpret_cast<T const*>(here_.data() + sought_[number].place); }
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

// Work on a queue's memory, as exchanges find it.
inline void copy_bytes(CudaQueue const& queue, void* to, void const* from, std::size_t bytes) {
  RowOps<CudaSpace>{queue}.copy_bytes(to, from, bytes);
}
template <class T>
void add_elements(CudaQueue const& queue, T* out, T const* in, std::size_t n) {
  RowOps<CudaSpace>{queue}.add_to(out, in, static_cast<std::int64_t>(n));
}

}  // namespace parallax
