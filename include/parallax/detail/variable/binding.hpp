// Lending the user's memory to a variable: a trainer calls `bind` and its kin, and gives the result to the constructor of a
// Variable.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/core/tensor_traits.hpp"
#include "parallax/detail/policy/update.hpp"

namespace parallax::inline v0_2 {

// Does not own: the elements of a dense variable, which outlive it; the user reads and writes them between steps as well.
// `row`: elements of a row, to an optimizer that measures rows; 0 for all of them.
template <class T>
struct FlatBinding {
  // The elements, updated in place by the variable.
  std::span<T> values;
  // Elements of a row, or 0.
  std::size_t row = 0;
};

// Does not own: the whole table of a replicated sparse variable, rows contiguous, in memory that outlives the variable.
template <class T>
struct TableBinding {
  // The table, [rows x width]; the variable refuses rows that lie apart.
  RowsView<T> values;
};

// Source of the memory of an owner-sharded table: allocate(rows) returns room for rows x width elements, owned by the user, and
// outliving the variable.
template <class Allocate>
struct ShardBinding {
  // The shape of the whole table, of all ranks together.
  std::int64_t rows, width;  // elements of a row
  // Called once, by the variable's constructor, with the number of this rank's rows; its exceptions pass.
  Allocate allocate;
};

namespace detail {

// Returns the memory as one that a variable may write. The assertion refuses const memory, which is passed on as if it were
// not.
template <class T>
auto writable(std::span<T> values) {
  static_assert(!std::is_const_v<T>, "parallax: a variable is updated in place: bind memory that is not const");
  return std::span{const_cast<std::remove_const_t<T>*>(values.data()), values.size()};
}
// Returns a table as one that a variable may write, with the same assertion.
template <class T>
auto writable(RowsView<T> rows) {
  static_assert(!std::is_const_v<T>, "parallax: a variable is updated in place: bind memory that is not const");
  return RowsView{const_cast<std::remove_const_t<T>*>(rows.data), rows.rows, rows.width, rows.stride};
}

// Returns the binding, for a variable over T. The assertion refuses another type; then returns an empty binding.
template <class T, template <class> class Binding, class U>
Binding<T> binding_of(Binding<U> const& binding) {
  static_assert(std::same_as<T, U>, "parallax: the bound memory is not of the variable's scalar type");
  if constexpr (std::same_as<T, U>) return binding;
  else return {};
}

}  // namespace detail

// Binds a tensor of contiguous elements as the memory of a Dense variable, or a table with a known shape as the memory of a
// Sparse one (see tensor_traits). Local; copies nothing. The memory must outlive the variable and not move. `row` elements are
// a row to an optimizer that measures rows; 0: all are one.
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

// Binds the `count` elements at `values`, a pointer to memory of the variable's space, as the memory of a Dense variable: as
// bind(tensor, row).
template <class Pointer>
  requires detail::ElementPointer<Pointer>
auto bind(Pointer&& values, std::size_t count, std::size_t row = 0) { return bind(std::span{values, count}, row); }
// Refuses, by an assertion, a pointer alone: it does not give the number of elements.
template <class Pointer>
  requires detail::ElementPointer<Pointer>
detail::Mistaken bind(Pointer&&) {
  static_assert(detail::never<Pointer>, "parallax: a pointer is bound with the number of elements that lie there: bind(p, n)");
  return {};
}

// Refuses anything else, by an assertion.
template <class Tensor>
  requires(!FlatTensor<Tensor> && !RowTensor<Tensor> && !detail::ElementPointer<Tensor>)
detail::Mistaken bind(Tensor&&, std::size_t = 0) {
  static_assert(detail::never<Tensor>,
                "parallax: bind takes a tensor: a contiguous range, or a type with px::tensor_traits of its own (see "
                "core/tensor_traits.hpp)");
  return {};
}

// Binds a table in the user's memory, for a Sparse variable of a replicating policy: all rows, alike on all ranks. It outlives
// the variable.
template <class T>
auto bind(RowsView<T> table) {
  return TableBinding<std::remove_const_t<T>>{detail::writable(table)};
}

// Binds a row-major run of elements as such a table, `width` of them a row: it outlives the variable. Throws Error
// (invalid_argument) if they are no whole number of rows.
template <class Tensor>
  requires FlatTensor<Tensor>
auto bind_rows(Tensor&& tensor, std::int64_t width) {
  auto const values = flat_view(tensor);
  using T = typename decltype(values)::element_type;
  auto const count = static_cast<std::int64_t>(values.size());
  if (width > 0 && count % width != 0)
    throw Error{Errc::invalid_argument, -1, "bind_rows", "",
                joined({count, " elements are no whole number of rows of ", width})};
  return bind(RowsView<T>{values.data(), width > 0 ? count / width : 0, width});
}

// Refuses anything but a run of elements, by an assertion.
template <class Tensor>
  requires(!FlatTensor<Tensor>)
detail::Mistaken bind_rows(Tensor&&, std::int64_t) {
  static_assert(detail::never<Tensor>,
                "parallax: bind_rows takes a contiguous range, or a type whose px::tensor_traits has "
                "flat (see core/tensor_traits.hpp)");
  return {};
}

// Binds the user's memory for this rank's shard of a table of `rows` rows in all. `allocate(local rows)` is called as the
// variable is made, and returns a pointer to local rows x `width` elements in memory of the variable's space, with their first
// values. The user owns them, and they outlive the variable.
template <class Allocate>
auto bind_shard(std::int64_t rows, std::int64_t width, Allocate allocate) {
  return ShardBinding<Allocate>{rows, width, std::move(allocate)};
}

}  // namespace parallax
