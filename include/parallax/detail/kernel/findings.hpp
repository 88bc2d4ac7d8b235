// Facts about gradients for a step to know before it goes on: the sum of their squares, and the place of one that is no number.
// A flight seeks both in every step that clips or asks for finite gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/kernel/host/finite.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// Fact sought of some rows: the sum of their squares, for clipping, or the first element that is infinite or not a number.
enum class Sought : unsigned char { squares, non_finite };

// Facts found, with references to the rows, which stay as they are until all of it has `arrived`; owns the facts. First
// everything is sought, then the search is started, once; the result of `seek` asks for the answer. Specialised for each memory
// space: if the memory is not the host's, all answers come in one copy, so a step waits for them once at most.
template <MemorySpace Space>
class Findings;

// In the host's memory facts are found when asked for: `seek` remembers the rows, and the call for the answer searches them.
template <>
class Findings<HostSpace> {
 public:
  // Forgets all searches, so the next number is 0; the memory stays. A flight calls it before another step.
  void clear() { sought_.clear(); }
  // Local. Remembers rows of T, read in their place by the question, and returns their number, from 0. The kind is not kept.
  template <class T>
  std::uint32_t seek(Sought, RowsView<T const> rows) {
    sought_.push_back({rows.data, rows.rows, rows.width, rows.stride});
    return static_cast<std::uint32_t>(sought_.size() - 1);
  }
  // Does nothing: nothing has to be begun.
  void start(RowOps<HostSpace> const&) {}
  // Returns true, always: the rows are here.
  bool arrived() const { return true; }

  // Returns the sum of the squares of all rows of search `number`, as returned by `seek`, in double; it is made by this call,
  // as RowOps' sum_of_row_squares. T is the scalar given to `seek`.
  template <class T>
  double sum_of_squares(std::size_t number) const {
    return RowOps<HostSpace>::sum_of_row_squares(sought_[number].template of<T>());
  }
  // Returns the first element of search `number`, row by row, that is infinite or not a number; none if all are finite.
  template <class T>
  std::optional<NonFiniteElement> first_non_finite(std::size_t number) const {
    return parallax::first_non_finite(sought_[number].template of<T>());
  }

 private:
  // Rows given to `seek`, of any scalar.
  struct Rows {  // does not own
    void const* data;
    std::int64_t rows, width, stride;

    // Returns the rows again in their type. The scalar is the caller's word: it is not kept.
    template <class T>
    RowsView<T const> of() const {
      return {static_cast<T const*>(data), rows, width, stride};
    }
  };

  List<Rows> sought_;
};

}  // namespace parallax
