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
    sought_.push_back({rows.data, rows.rows, rows.width, rows.stride, squares_of<std::remove_const_t<T>>,
                       non_finite_in<std::remove_const_t<T>>});
    return static_cast<std::uint32_t>(sought_.size() - 1);
  }
  void start(RowOps<HostSpace> const&) {}
  bool arrived() const { return true; }

  // Of all rows: those of each, in the order of RowOps, and theirs added in order.
  double sum_of_squares(std::size_t number) const { return sought_[number].squares(sought_[number]); }
  std::optional<NonFiniteElement> first_non_finite(std::size_t number) const {
    return sought_[number].non_finite(sought_[number]);
  }

 private:
  struct Rows {  // of any scalar, and what knows which
    void const* data;
    std::int64_t rows, width, stride;
    double (*squares)(Rows const&);
    std::optional<NonFiniteElement> (*non_finite)(Rows const&);

    template <class T>
    RowsView<T const> of() const {
      return {static_cast<T const*>(data), rows, width, stride};
    }
  };
  template <class T>
  static double squares_of(Rows const& rows) {
    return RowOps<HostSpace>::sum_of_row_squares(rows.of<T>());
  }
  template <class T>
  static std::optional<NonFiniteElement> non_finite_in(Rows const& rows) {
    return parallax::first_non_finite(rows.of<T>());
  }

  std::vector<Rows> sought_;
};

}  // namespace parallax
