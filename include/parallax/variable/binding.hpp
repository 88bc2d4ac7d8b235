// Lending the user's memory to a variable.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/core/tensor_traits.hpp"
#include "parallax/policy/update.hpp"

namespace parallax {

// Does not own: the elements of a dense variable, which the user also reads and writes between steps. `row`: how many of them
// are a row to an optimizer that measures rows, 0 for all of them.
template <class T>
struct FlatBinding {
  std::span<T> values;
  std::size_t row = 0;
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

namespace detail {

// Memory that a variable may write. What is const is told by the assertion, and passed on as if it were not.
template <class T>
auto writable(std::span<T> values) {
  static_assert(!std::is_const_v<T>, "parallax: a variable is updated in place: bind memory that is not const");
  return std::span{const_cast<std::remove_const_t<T>*>(values.data()), values.size()};
}
template <class T>
auto writable(RowsView<T> rows) {
  static_assert(!std::is_const_v<T>, "parallax: a variable is updated in place: bind memory that is not const");
  return RowsView{const_cast<std::remove_const_t<T>*>(rows.data), rows.rows, rows.width, rows.stride};
}

// A binding as a variable over T takes it.
template <class T, template <class> class Binding, class U>
Binding<T> binding_of(Binding<U> const& binding) {
  static_assert(std::same_as<T, U>, "parallax: the bound memory is not of the variable's scalar type");
  if constexpr (std::same_as<T, U>) return binding;
  else return {};
}

}  // namespace detail

// Any tensor whose elements are contiguous (see tensor_traits). The memory must outlive the variable and not move. `row`
// elements are a row to an optimizer that measures rows; 0: all are one.
template <class Tensor>
  requires(FlatTensor<Tensor> || RowTensor<Tensor>)
auto bind(Tensor&& tensor, std::size_t row = 0) {
  if constexpr (FlatTensor<Tensor>) {
    auto const values = detail::writable(flat_view(tensor));
    return FlatBinding<typename decltype(values)::element_type>{values, row};
  } else {
    auto const rows = detail::writable(detail::traits_for<Tensor>::rows(tensor));
    return TableBinding<typename decltype(rows)::value_type>{rows};
  }
}

// The `count` elements at `values`, a pointer to memory of the variable's space.
template <class Pointer>
  requires detail::ElementPointer<Pointer>
auto bind(Pointer&& values, std::size_t count, std::size_t row = 0) { return bind(std::span{values, count}, row); }
template <class Pointer>
  requires detail::ElementPointer<Pointer>
detail::Mistaken bind(Pointer&&) {
  static_assert(detail::never<Pointer>, "parallax: a pointer is bound with the number of elements that lie there: bind(p, n)");
  return {};
}

// Of anything else.
template <class Tensor>
  requires(!FlatTensor<Tensor> && !RowTensor<Tensor> && !detail::ElementPointer<Tensor>)
detail::Mistaken bind(Tensor&&, std::size_t = 0) {
  static_assert(detail::never<Tensor>,
                "parallax: bind takes a tensor, which is a contiguous range or a type of which "
                "px::tensor_traits is specialised (see core/tensor_traits.hpp)");
  return {};
}

// A table in the user's memory.
template <class T>
auto bind(RowsView<T> table) {
  return TableBinding<std::remove_const_t<T>>{detail::writable(table)};
}

// A table in the user's memory as the rows of a row-major run of elements.
template <class Tensor>
  requires FlatTensor<Tensor>
auto bind_rows(Tensor&& tensor, std::int64_t width) {
  auto const values = flat_view(tensor);
  using T = typename decltype(values)::element_type;
  return bind(RowsView<T>{values.data(), width > 0 ? static_cast<std::int64_t>(values.size()) / width : 0, width});
}

template <class Tensor>
  requires(!FlatTensor<Tensor>)
detail::Mistaken bind_rows(Tensor&&, std::int64_t) {
  static_assert(detail::never<Tensor>,
                "parallax: bind_rows takes a contiguous range, or a type whose px::tensor_traits has "
                "flat (see core/tensor_traits.hpp)");
  return {};
}

template <class Allocate>
auto bind_shard(std::int64_t rows, std::int64_t width, Allocate allocate) {
  return ShardBinding<Allocate>{rows, width, std::move(allocate)};
}

}  // namespace parallax
