// Facts about rows on a CUDA device, for a step to know before it goes on: sought by kernels, and brought to the host in one
// copy. For every compiler; kernel/cuda/row_ops.hpp includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "parallax/detail/kernel/findings.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"

namespace parallax::inline v0_2 {

// Findings on a device. All answers lie in one block of memory, and come to pinned memory in one copy, so a step waits for them
// once at most. Rows are of float or double, and lie on the device.
template <>
class Findings<CudaSpace> {
 public:
  // Forgets all searches, and keeps the memory.
  void clear() { sought_.clear(), bytes_ = 0; }
  // Local. Remembers a search of `rows`, which stay as they are until all has `arrived`, and returns its number, from 0.
  template <class T>
  std::uint32_t seek(Sought what, RowsView<T const> rows) {
    sought_.push_back({what, rows, bytes_});
    bytes_ += what == Sought::squares ? sizeof(double) : sizeof(NonFiniteElement);
    return static_cast<std::uint32_t>(sought_.size() - 1);
  }
  // Starts all searches in the order of the stream, and the copy of their answers; called once after the last `seek`. Throws
  // Error (device, out_of_memory; misuse if the stream is captured).
  void start(RowOps<CudaSpace> const& ops) {
    if (sought_.empty()) return;
    there_.resize_with_slack(bytes_);
    here_.resize_with_slack(bytes_);
    if (!brought_at_) brought_at_.emplace();
    for (Search const& search : sought_) std::visit([&](auto rows) { look(ops, search, rows); }, search.rows);
    device::copy(here_.data(), there_.data(), bytes_, cudaMemcpyDeviceToHost, ops.stream());
    brought_at_->record(ops.stream());
  }
  // Returns true if the answers are here, without waiting; true if nothing was sought. Throws Error (device).
  bool arrived() const { return sought_.empty() || brought_at_->reached(); }

  // Returns the sum of the squares of all rows of search `number`, in double, with the host's bits. Only once it has `arrived`.
  template <class>
  double sum_of_squares(std::size_t number) const {
    return *here<double>(number);
  }
  // Returns the first element of search `number`, row by row, that is not finite; none if all are. Only once it has `arrived`.
  template <class>
  std::optional<NonFiniteElement> first_non_finite(std::size_t number) const {
    NonFiniteElement const first = *here<NonFiniteElement>(number);
    if (first.row == std::visit([](auto rows) { return rows.rows; }, sought_[number].rows)) return std::nullopt;
    return first;
  }

 private:
  // One search, and the place of its answer in the block of memory, in bytes from its beginning.
  struct Search {
    Sought what;
    std::variant<RowsView<float const>, RowsView<double const>> rows;
    std::size_t place;
  };
  // Returns the place of an answer for a kernel, on the device.
  template <class T>
  T* there(Search const& search) {
    return reinterpret_cast<T*>(there_.data() + search.place);
  }
  // Returns the place of an answer for the host.
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

}  // namespace parallax
