// Non-owning views of row tables, trivially copyable so that they travel into device code.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "parallax/core/config.hpp"

namespace parallax {

// Does not own. `rows` rows of `width` elements each, row-major; consecutive rows lie `stride` elements apart.
template <class T>
struct RowsView {
  using value_type = std::remove_const_t<T>;

  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;

  constexpr RowsView() = default;
  PARALLAX_HOST_DEVICE constexpr RowsView(T* first, std::int64_t row_count, std::int64_t row_width)
      : data{first}, rows{row_count}, width{row_width}, stride{row_width} {}
  PARALLAX_HOST_DEVICE constexpr RowsView(T* first, std::int64_t row_count, std::int64_t row_width,
                                          std::int64_t row_stride)
      : data{first}, rows{row_count}, width{row_width}, stride{row_stride} {}

  template <class U>
    requires(!std::is_same_v<U, T> && std::is_same_v<U const, T>)
  PARALLAX_HOST_DEVICE constexpr RowsView(RowsView<U> other)
      : data{other.data}, rows{other.rows}, width{other.width}, stride{other.stride} {}

  PARALLAX_HOST_DEVICE constexpr T* row(std::int64_t i) const { return data + i * stride; }
  std::span<T> operator[](std::int64_t i) const { return {row(i), static_cast<std::size_t>(width)}; }
  PARALLAX_HOST_DEVICE constexpr bool contiguous() const { return stride == width; }
};

// Does not own. A sparse gradient or a set of rows by index: `values.rows == indices.size()`, indices may repeat.
template <class Index, class T>
struct IndexedSlices {
  std::span<Index const> indices;
  RowsView<T> values;
};

}  // namespace parallax
