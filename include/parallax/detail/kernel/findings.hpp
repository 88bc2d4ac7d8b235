// What a step has to know of gradients before it goes on: the sum of their squares, and where one is that is no number. A
// flight seeks both in every step that clips or asks for finite gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/kernel/host/finite.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// What is sought of some rows: the sum of their squares, by which gradients are clipped, or the first element that is
// infinite or not a number.
enum class Sought : unsigned char { squares, non_finite };

// Owns what is found, and refers to the rows, which stay as they are until all of it has `arrived`. First everything is sought,
// then the search is started, once; what `seek` returned is what the answer is asked by. Specialised for each memory space:
// where the memory is not the host's, all answers come in one copy, so that a step waits for them once at most.
template <MemorySpace Space>
class Findings;

// In the host's memory it is found when it is asked for: a search is remembered, and made by the question.
template <>
class Findings<HostSpace> {
 public:
  // Forgets what was sought. A flight calls it before it is used for another step.
  void clear() { sought_.clear(); }
  // Local. Remembers rows of T, and returns the number by which the answer is asked for. What is sought is not kept, for the
  // question says it again.
  template <class T>
  std::uint32_t seek(Sought, RowsView<T const> rows) {
    sought_.push_back({rows.data, rows.rows, rows.width, rows.stride});
    return static_cast<std::uint32_t>(sought_.size() - 1);
  }
  // Nothing has to be begun.
  void start(RowOps<HostSpace> const&) {}
  // Always true: the rows are here.
  bool arrived() const { return true; }

  // Of all rows together, in double: those of each, in the order of RowOps, and theirs added in order. `number` is what
  // `seek` returned; T is the scalar of what was given to it.
  template <class T>
  double sum_of_squares(std::size_t number) const {
    return RowOps<HostSpace>::sum_of_row_squares(sought_[number].template of<T>());
  }
  // The first element of these rows, in their order, that is infinite or not a number; none where all are finite.
  template <class T>
  std::optional<NonFiniteElement> first_non_finite(std::size_t number) const {
    return parallax::first_non_finite(sought_[number].template of<T>());
  }

 private:
  // Rows that were given to `seek`, of any scalar.
  struct Rows {  // of any scalar
    void const* data;
    std::int64_t rows, width, stride;

    // The rows again as what they are. The scalar is the caller's word: it is not kept.
    template <class T>
    RowsView<T const> of() const {
      return {static_cast<T const*>(data), rows, width, stride};
    }
  };

  List<Rows> sought_;
};

}  // namespace parallax
