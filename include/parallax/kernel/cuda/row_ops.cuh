// RowOps<CudaSpace>: the row operations that variables on a CUDA device are made of, over the launchers beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "parallax/kernel/cuda/copies.cuh"
#include "parallax/kernel/cuda/elements.cuh"
#include "parallax/kernel/cuda/rows.cuh"
#include "parallax/kernel/cuda/sums.cuh"
#include "parallax/kernel/cuda/updates.cuh"
#include "parallax/kernel/host.hpp"
#include "parallax/memory/buffer.hpp"
#include "parallax/memory/cuda.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

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
    if (reached_ && started_) reached_->synchronize();
    started_ = false;
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
    started_ = true;
    return device_.data();
  }
  std::byte const* there() const { return device_.data(); }

 private:
  Buffer<std::byte, PinnedSpace> pinned_;
  Buffer<std::byte, CudaSpace> device_;
  std::optional<CudaEvent> reached_;
  bool started_ = false;
};

namespace detail {

// Grid: threads stride over the elements. Memory: written once.
template <class T>
__global__ void __launch_bounds__(block_threads) fill_kernel(T* values, std::uint64_t n, T value) {
  for (std::uint64_t i = thread_number(); i < n; i += thread_count()) values[i] = value;
}

// Grid: threads stride over the elements. Memory: read and written once; a count is read for each.
template <class T>
__global__ void __launch_bounds__(block_threads)
    scale_rows_down_kernel(T* values, std::uint64_t n, std::uint64_t width, std::uint32_t const* counts) {
  for (std::uint64_t i = thread_number(); i < n; i += thread_count())
    values[i] = divide(values[i], static_cast<T>(counts[i / width]));
}

// Grid: threads stride over the elements; each writes the first place that it has found, or n. Memory: read once.
template <class T>
__global__ void __launch_bounds__(block_threads)
    first_non_finite_kernel(T const* values, std::uint64_t n, std::uint64_t* first) {
  std::uint64_t found = n;
  for (std::uint64_t i = thread_number(); i < n && found == n; i += thread_count())
    if (!(values[i] - values[i] == T{0})) found = i;
  first[thread_number()] = found;
}

}  // namespace detail
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

// A grouping of the host's on the device, sent in one copy.
template <class Index>
class Shown<Grouping<Index>, CudaSpace> {
 public:
  cuda::ShownGroups<Index> const& of(RowOps<CudaSpace> const& ops, Grouping<Index> const& host);
  void renew() { stale_ = true; }

 private:
  cuda::Upload upload_;
  cuda::ShownGroups<Index> shown_;
  bool stale_ = true;
};

// Works on device memory that the caller owns, in the order of the queue's stream; scratch comes from its pool. What returns a
// number waits for the device. Everything may throw Error (device, out_of_memory). The bits are those of RowOps<HostSpace>.
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
  void fill(T* values, std::size_t n, T value) const {
    cuda::launch(stream(), cuda::detail::grid_for(cuda::detail::ceil_div(n, cuda::block_threads)), cuda::block_threads, 0,
                 cuda::detail::fill_kernel<T>, values, n, value);
  }

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
      cuda::copy_all(ops_->stream(), there, static_cast<std::uint32_t>(jobs.size()), most);
    }

   private:
    RowOps const* ops_;
    CopyRoom* room_;
  };
  Copies copies(CopyRoom& room) const { return {*this, room}; }

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
                std::size_t last, T* out) const {
    DeviceBuffer<std::byte> scratch{*queue_.pool, stream(), cuda::sums_scratch_bytes<T>(shown.groups.count, values.width)};
    cuda::coalesce(stream(), values, shown.groups, out, scratch.data(), static_cast<std::uint32_t>(first),
                   static_cast<std::uint32_t>(last));
  }
  template <class T, class I>
  void gather_rows(RowsView<std::type_identity_t<T> const> table, std::span<I> indices, std::remove_const_t<I> base,
                   T* out) const {
    cuda::gather_rows(stream(), table, std::span<std::remove_const_t<I> const>{indices}, base, out);
  }
  template <class T>
  void pack_rows(RowsView<std::type_identity_t<T> const> rows, std::size_t first, std::size_t last, T* out) const {
    auto const row_bytes = static_cast<std::size_t>(rows.width) * sizeof(T);
    if (rows.contiguous()) return copy_bytes(out, rows.row(static_cast<std::int64_t>(first)), (last - first) * row_bytes);
    for (std::size_t i = first; i < last; ++i, out += rows.width)
      copy_bytes(out, rows.row(static_cast<std::int64_t>(i)), row_bytes);
  }

  template <class T>
  void copy_from(T* out, std::type_identity_t<T> const* in, std::int64_t n) const {
    copy_bytes(out, in, static_cast<std::size_t>(n) * sizeof(T));
  }
  template <class T>
  void add_to(T* out, std::type_identity_t<T> const* in, std::int64_t n) const {
    if (n > 0) cuda::add_to(stream(), out, in, static_cast<std::uint64_t>(n));
  }
  template <class T>
  void scale_down(T* values, std::int64_t n, std::type_identity_t<T> divisor) const {
    if (n > 0) cuda::scale_down(stream(), values, static_cast<std::uint64_t>(n), divisor);
  }
  // `counts`: as operations find them.
  template <class T>
  void scale_rows_down(T* values, std::int64_t width, std::span<std::uint32_t const> counts) const {
    std::uint64_t const n = counts.size() * static_cast<std::uint64_t>(width);
    cuda::launch(stream(), cuda::detail::grid_for(cuda::detail::ceil_div(n, cuda::block_threads)), cuda::block_threads, 0,
                 cuda::detail::scale_rows_down_kernel<T>, values, n, static_cast<std::uint64_t>(width), counts.data());
  }

  template <class T>
  std::int64_t first_non_finite(T const* values, std::int64_t n) const {
    auto const count = static_cast<std::uint64_t>(n);
    unsigned const blocks = std::min(cuda::detail::grid_for(cuda::detail::ceil_div(count, cuda::block_threads)), 64u);
    std::vector<std::uint64_t> found(std::size_t{blocks} * cuda::block_threads, count);
    DeviceBuffer<std::uint64_t> there{*queue_.pool, stream(), found.size()};
    cuda::launch(stream(), blocks, cuda::block_threads, 0, cuda::detail::first_non_finite_kernel<T>, values, count,
                 there.data());
    to_host(found.data(), there.data(), found.size());
    std::uint64_t first = count;
    for (std::uint64_t const place : found) first = std::min(first, place);
    return static_cast<std::int64_t>(first);
  }
  template <class T>
  double sum_of_squares(T const* values, std::int64_t n) const {
    DeviceBuffer<double> sum{*queue_.pool, stream(), 1};
    cuda::sum_of_squares(stream(), values, static_cast<std::uint64_t>(n), sum.data());
    return read(sum.data());
  }

  template <class T, class Scale, class Rule, class... S>
  void apply_elements(std::int64_t n, T* parameters, std::type_identity_t<T> const* gradients, Scale scale, Rule const& rule,
                      S*... slots) const {
    cuda::apply_elements(stream(), static_cast<std::uint64_t>(n), parameters, gradients, scaling<T>(scale), rule, slots...);
  }

  template <class... S>
  static cuda::Slots<S...> slots(RowsView<S>... tables) {
    return cuda::Slots<S...>{tables...};
  }
  // The indices differ. `slots` and `row_slots`: by the function above.
  template <class T, class I, class Rule, class... S, class... R>
  void apply_rows(std::span<I> indices, std::remove_const_t<I> base, RowsView<T> table,
                  std::type_identity_t<T> const* gradients, std::type_identity_t<T> scale, Rule const& rule,
                  cuda::Slots<S...> const& element_slots, cuda::Slots<R...> const& row_slots) const {
    cuda::apply_rows(stream(), std::span<std::remove_const_t<I> const>{indices}, base, table, gradients, scaling<T>(scale),
                     rule, element_slots, row_slots);
  }

 private:
  template <class T>
  static cuda::Scaling<T> scaling(Unscaled) {
    return {};
  }
  template <class T>
  static cuda::Scaling<T> scaling(T scale) {
    return {T{1}, nullptr, scale};
  }
  template <class T>
  static cuda::Scaling<T> scaling(Averaged<T> average) {
    return {average.divisor, nullptr, average.scale};
  }

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
cuda::ShownGroups<Index> const& Shown<Grouping<Index>, CudaSpace>::of(RowOps<CudaSpace> const& ops,
                                                                      Grouping<Index> const& host) {
  if (!stale_) return shown_;
  auto const distinct = static_cast<std::uint32_t>(host.size());
  std::size_t const keys = host.keys.size() * sizeof(Index), offsets = host.offsets.size() * sizeof(std::uint32_t),
                    positions = host.count() * sizeof(std::uint32_t);
  std::byte* at = upload_.room(keys + offsets + 2 * positions + sizeof distinct);
  auto const put = [&](void const* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  put(host.keys.data(), keys), put(host.offsets.data(), offsets);
  put(host.order.data(), positions), put(host.inverse.data(), positions), put(&distinct, sizeof distinct);
  // What operations read of it they do not write.
  auto* const there = const_cast<std::byte*>(upload_.start(ops.stream()));
  auto const numbers = [&](std::size_t offset) { return reinterpret_cast<std::uint32_t*>(there + offset); };
  shown_ = {{reinterpret_cast<Index*>(there), numbers(keys), numbers(keys + offsets), numbers(keys + offsets + positions),
             numbers(keys + offsets + 2 * positions), static_cast<std::uint32_t>(host.count())},
            distinct};
  stale_ = false;
  return shown_;
}

// Work on a queue's memory, as exchanges find it.
inline void copy_bytes(CudaQueue const& queue, void* to, void const* from, std::size_t bytes) {
  RowOps<CudaSpace>{queue}.copy_bytes(to, from, bytes);
}
template <class T>
void add_elements(CudaQueue const& queue, T* out, T const* in, std::size_t n) {
  RowOps<CudaSpace>{queue}.add_to(out, in, static_cast<std::int64_t>(n));
}

}  // namespace parallax

PARALLAX_STRICT_ARITHMETIC_END
