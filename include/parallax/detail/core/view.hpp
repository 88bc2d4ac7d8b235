// Non-owning views of row tables, trivially copyable so that they travel into device code. What users lend and get, and row
// operations take.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {

// Does not own. `rows` rows of `width` elements each, row-major; consecutive rows lie `stride` elements apart. The memory must
// outlive it.
template <class T>
struct RowsView {
  // The type of an element, without const.
  using value_type = std::remove_const_t<T>;

  // Element 0 of row 0.
  T* data = nullptr;
  // How many rows there are; -1 of `rows_view` says that the elements do not divide into rows.
  std::int64_t rows = 0;
  // Elements of a row.
  std::int64_t width = 0;
  // Elements from one row's beginning to the next one's, at least `width`.
  std::int64_t stride = 0;

  constexpr RowsView() = default;
  // Rows that lie one behind the other.
  PARALLAX_HOST_DEVICE constexpr RowsView(T* first, std::int64_t row_count, std::int64_t row_width)
      : data{first}, rows{row_count}, width{row_width}, stride{row_width} {}
  // Rows that lie `row_stride` elements apart.
  PARALLAX_HOST_DEVICE constexpr RowsView(T* first, std::int64_t row_count, std::int64_t row_width,
                                          std::int64_t row_stride)
      : data{first}, rows{row_count}, width{row_width}, stride{row_stride} {}

  // A view to read by, of one to write by.
  template <class U>
    requires(!std::is_same_v<U, T> && std::is_same_v<U const, T>)
  PARALLAX_HOST_DEVICE constexpr RowsView(RowsView<U> other)
      : data{other.data}, rows{other.rows}, width{other.width}, stride{other.stride} {}

  // Element 0 of row i, 0 <= i < rows.
  PARALLAX_HOST_DEVICE constexpr T* row(std::int64_t i) const { return data + i * stride; }
  // Row i as a run of `width` elements. On the host.
  std::span<T> operator[](std::int64_t i) const { return {row(i), static_cast<std::size_t>(width)}; }
  // Whether rows lie one behind the other, so that all elements are one run.
  PARALLAX_HOST_DEVICE constexpr bool contiguous() const { return stride == width; }
};

// Does not own. A sparse gradient or a set of rows by index: `values.rows == indices.size()`, indices may repeat.
template <class Index, class T>
struct IndexedSlices {
  // The number of the row that row i of `values` belongs to.
  std::span<Index const> indices;
  // A row for each index, in the order of `indices`.
  RowsView<T> values;
};

}  // namespace parallax
