// What a step has to know of gradients before it goes on: the sum of their squares, and where one is that is no number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "parallax/core/view.hpp"
#include "parallax/kernel/host.hpp"
#include "parallax/kernel/host_finite.hpp"
#include "parallax/memory/space.hpp"

namespace parallax {

enum class Sought : unsigned char { squares, non_finite };

// Owns what is found, and refers to the rows, which stay as they are until all of it has `arrived`. First everything is sought,
// then the search is started, once; what `seek` returned is what the answer is asked by. Specialised for each memory space:
// where the memory is not the host's, all answers come in one copy, so that a step waits for them once at most.
template <MemorySpace Space>
class Findings;

// In the host's memory it is found when it is asked for.
template <>
class Findings<HostSpace> {
 public:
  void clear() { sought_.clear(); }
  template <class T>
  std::uint32_t seek(Sought, RowsView<T const> rows) {
    sought_.push_back({rows.data, rows.rows, rows.width, rows.stride});
    return static_cast<std::uint32_t>(sought_.size() - 1);
  }
  void start(RowOps<HostSpace> const&) {}
  bool arrived() const { return true; }

  // Of all rows: those of each, in the order of RowOps, and theirs added in order. T is the scalar of what was given to `seek`.
  template <class T>
  double sum_of_squares(std::size_t number) const {
    return RowOps<HostSpace>::sum_of_row_squares(sought_[number].template of<T>());
  }
  template <class T>
  std::optional<NonFiniteElement> first_non_finite(std::size_t number) const {
    return parallax::first_non_finite(sought_[number].template of<T>());
  }

 private:
  struct Rows {  // of any scalar
    void const* data;
    std::int64_t rows, width, stride;

    template <class T>
    RowsView<T const> of() const {
      return {static_cast<T const*>(data), rows, width, stride};
    }
  };

  std::vector<Rows> sought_;
};

}  // namespace parallax
