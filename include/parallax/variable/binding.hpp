// Lending the user's memory to a variable.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/core/tensor_traits.hpp"

namespace parallax {

// Does not own: the elements of a dense variable, which the user also reads and writes between steps.
template <class T>
struct FlatBinding {
  std::span<T> values;
};

// Does not own: the whole table of a replicated sparse variable, rows contiguous.
template <class T>
struct TableBinding {
  RowsView<T> values;
};

// Where an owner-sharded table takes its memory from: allocate(rows) returns room for rows x width elements, which the
// user owns and which outlives the variable.
template <class Allocate>
struct ShardBinding {
  std::int64_t rows, width;
  Allocate allocate;
};

// Any tensor whose elements are contiguous (see tensor_traits). The memory must outlive the variable and not move.
template <class Tensor>
  requires(FlatTensor<Tensor> || RowTensor<Tensor>)
auto bind(Tensor&& tensor) {
  if constexpr (FlatTensor<Tensor>) {
    auto const values = flat_view(tensor);
    using T = typename decltype(values)::element_type;
    static_assert(!std::is_const_v<T>, "parallax: a variable is updated in place: bind memory that is not const");
    return FlatBinding<T>{values};
  } else {
    auto const values = detail::traits_for<Tensor>::rows(tensor);
    return TableBinding<std::remove_pointer_t<decltype(values.data)>>{values};
  }
}

// A table in the user's memory as the rows of a row-major run of elements.
template <class T>
auto bind(RowsView<T> table) {
  return TableBinding<T>{table};
}

template <class Tensor>
  requires FlatTensor<Tensor>
auto bind_rows(Tensor&& tensor, std::int64_t width) {
  auto const values = flat_view(tensor);
  using T = typename decltype(values)::element_type;
  return TableBinding<T>{RowsView<T>{values.data(), width > 0 ? static_cast<std::int64_t>(values.size()) / width : 0, width}};
}

template <class Allocate>
auto bind_shard(std::int64_t rows, std::int64_t width, Allocate allocate) {
  return ShardBinding<Allocate>{rows, width, std::move(allocate)};
}

}  // namespace parallax
