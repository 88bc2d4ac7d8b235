// The library's view of a user's tensor: specialise `tensor_traits` to make a type of yours bindable. `bind`, `pull` and `grad`
// look so at their arguments.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "parallax/detail/core/view.hpp"

namespace parallax::inline v0_2 {

// The customisation point. A specialisation for a type `Tensor` (given without const or reference) offers
//   static std::span<T> flat(Tensor&)          all elements, contiguous: for a dense variable to bind, and for dense gradients
//   static RowsView<T> rows(Tensor&)           a row-major table: for sparse rows and their gradients (optional)
// with T const for a const tensor. The primary template takes contiguous ranges; interop/eigen.hpp adds Eigen's matrices.
template <class Tensor>
struct tensor_traits;

// Contiguous ranges: whatever std::span can be made from, such as vectors, arrays and spans.
template <class Tensor>
  requires requires(Tensor& tensor) { std::span{tensor}; }
struct tensor_traits<Tensor> {
  // Returns all elements, in the range's own memory: the range outlives the span.
  template <class Self>
  static auto flat(Self& tensor) {
    auto const view = std::span{tensor};
    return std::span{view.data(), view.size()};  // of any size, even if the type has a fixed one
  }
};

// A RowsView is a table itself; it has no `flat`, as its rows may lie apart.
template <class T>
struct tensor_traits<RowsView<T>> {
  // Returns the view itself.
  static RowsView<T> rows(RowsView<T> const& view) { return view; }
};

namespace detail {
// The traits of a tensor as it is passed: const and references are taken off.
template <class Tensor>
using traits_for = tensor_traits<std::remove_cvref_t<Tensor>>;
}

// Readable as one contiguous run of elements.
template <class Tensor>
concept FlatTensor = requires(Tensor& tensor) { detail::traits_for<Tensor>::flat(tensor); };

// Readable as a row-major table that knows its own shape.
template <class Tensor>
concept RowTensor = requires(Tensor& tensor) { detail::traits_for<Tensor>::rows(tensor); };

namespace detail {
// A pointer to elements, which needs a count beside it, of a type that is no tensor itself.
template <class P>
concept ElementPointer = std::is_pointer_v<std::remove_cvref_t<P>> && !FlatTensor<P> && !RowTensor<P> &&
                         std::is_object_v<std::remove_pointer_t<std::remove_cvref_t<P>>>;
}  // namespace detail

// Returns all elements of a tensor, which must outlive the result, as one run. Made by `bind` and `grad` of a dense tensor, by
// `at` of ids.
template <FlatTensor Tensor>
auto flat_view(Tensor&& tensor) {
  return detail::traits_for<Tensor>::flat(tensor);
}

// Returns rows of a given width: from a tensor that knows its shape, or any contiguous range whose size is a multiple of the
// width; with a remainder the view's `rows` is -1. The tensor must outlive the view.
template <class Tensor>
  requires(RowTensor<Tensor> || FlatTensor<Tensor>)
auto rows_view(Tensor&& tensor, std::int64_t width) {
  if constexpr (RowTensor<Tensor>) {
    return detail::traits_for<Tensor>::rows(tensor);
  } else {
    auto const flat = flat_view(tensor);
    using T = typename decltype(flat)::element_type;
    auto const size = static_cast<std::int64_t>(flat.size());
    bool const divides = width > 0 ? size % width == 0 : size == 0;
    return RowsView<T>{flat.data(), divides ? (width > 0 ? size / width : 0) : -1, width};
  }
}

}  // namespace parallax
