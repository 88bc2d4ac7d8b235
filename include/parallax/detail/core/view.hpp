// Non-owning views of row tables, trivially copyable into device code. Users lend and get them, and row operations take them.
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
  // Type of an element, without const.
  using value_type = std::remove_const_t<T>;

  // Element 0 of row 0.
  T* data = nullptr;
  // Number of rows; -1 of `rows_view` says that the elements do not divide into rows.
  std::int64_t rows = 0;
  // Elements of a row.
  std::int64_t width = 0;
  // Elements from one row's beginning to the next one's, at least `width`.
  std::int64_t stride = 0;

  constexpr RowsView() = default;
  // Takes rows that lie one behind the other.
  PARALLAX_HOST_DEVICE constexpr RowsView(T* first, std::int64_t row_count, std::int64_t row_width)
      : data{first}, rows{row_count}, width{row_width}, stride{row_width} {}
  // Takes rows that lie `row_stride` elements apart.
  PARALLAX_HOST_DEVICE constexpr RowsView(T* first, std::int64_t row_count, std::int64_t row_width,
                                          std::int64_t row_stride)
      : data{first}, rows{row_count}, width{row_width}, stride{row_stride} {}

  // Makes a view to read by, of one to write by.
  template <class U>
    requires(!std::is_same_v<U, T> && std::is_same_v<U const, T>)
  PARALLAX_HOST_DEVICE constexpr RowsView(RowsView<U> other)
      : data{other.data}, rows{other.rows}, width{other.width}, stride{other.stride} {}

  // Returns element 0 of row i, 0 <= i < rows.
  PARALLAX_HOST_DEVICE constexpr T* row(std::int64_t i) const { return data + i * stride; }
  // Returns row i as a run of `width` elements. On the host.
  std::span<T> operator[](std::int64_t i) const { return {row(i), static_cast<std::size_t>(width)}; }
  // Returns true if rows lie one behind the other, and all elements are one run.
  PARALLAX_HOST_DEVICE constexpr bool contiguous() const { return stride == width; }
};

// Does not own. A sparse gradient or a set of rows by index: `values.rows == indices.size()`, indices may repeat.
template <class Index, class T>
struct IndexedSlices {
  // Numbers of the rows, in the order of `values`.
  std::span<Index const> indices;
  // Rows, one for each index, in the order of `indices`.
  RowsView<T> values;
};

}  // namespace parallax
