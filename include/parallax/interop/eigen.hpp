// Eigen's matrices and arrays as tensors of variables and gradients, without a copy. Trainers with Eigen include this header
// beside parallax.hpp; `bind`, `grad` and `pull` then take Eigen's types.
#pragma once

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/core/tensor_traits.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// Takes anything derived from Eigen's DenseBase, in memory or not. Without a body: for the next concept, which asks for more.
template <class D>
void eigen_expression(Eigen::DenseBase<D> const&);
// An expression stored in memory: a matrix or an array, a map of one, a block, a transpose, a diagonal.
template <class M>
concept EigenMatrix = requires(M& matrix) {
  eigen_expression(matrix);
  matrix.data();
  matrix.innerStride();
  matrix.outerStride();
};

// The type of an expression's coefficients, const for a const expression.
template <class M>
using eigen_element = std::remove_pointer_t<decltype(std::declval<M&>().data())>;

// Returns true if the type of an expression shows gaps: `size` things lie `stride` elements apart, and `packed` without gaps.
consteval bool has_eigen_gaps(int size, int stride, int packed) {
  bool const known = stride != Eigen::Dynamic && packed != Eigen::Dynamic;
  return size != 0 && size != 1 && known && stride != packed;
}
// True if the coefficients of a row, or of a column in columns' order, have gaps between them.
template <class M>
inline constexpr bool has_gaps_within = has_eigen_gaps(M::InnerSizeAtCompileTime, M::InnerStrideAtCompileTime, 1);
// True if the rows, or columns, have gaps between them.
template <class M>
inline constexpr bool has_gaps_between =
    !M::IsVectorAtCompileTime && has_eigen_gaps(M::IsRowMajor ? M::RowsAtCompileTime : M::ColsAtCompileTime,
                                                M::OuterStrideAtCompileTime, M::InnerSizeAtCompileTime);

// Throws Error (invalid_argument) for an expression whose `strides`, in words, cannot be taken as they are; `what`: the reason.
[[noreturn]] inline void refuse_eigen_gaps(std::string const& what, std::int64_t rows, std::int64_t columns,
                                           std::string const& strides) {
  throw Error{Errc::invalid_argument, -1, "", "",
              joined({"an Eigen expression of ", rows, " x ", columns, " with ", strides, what, ": copy it, as by eval()"})};
}

}  // namespace detail

// An expression in memory, by its strides. The coefficients of a dense tensor lie one after another, in the order of its
// storage: a whole matrix, or whole columns of one in columns' order. In a row table the coefficients of each row lie so: in a
// matrix of Eigen::RowMajor, a block of one, or a vector, whose elements are rows. An assertion refuses gaps shown by the type.
// Gaps shown by strides at run time are an Error (invalid_argument), thrown by the call with the tensor: `grad`, `bind` or
// `at`.
template <detail::EigenMatrix M>
struct tensor_traits<M> {
  // Returns all coefficients as one run, in the order of storage; Eigen owns them. Throws Error (invalid_argument) for gaps.
  template <class Self>
  static std::span<detail::eigen_element<Self>> flat(Self& matrix) {
    static_assert(M::SizeAtCompileTime == 0 || !(detail::has_gaps_within<M> || detail::has_gaps_between<M>),
                  "parallax: the coefficients of this Eigen expression have gaps between them: copy it, as by eval()");
    bool const packed = (matrix.innerSize() <= 1 || matrix.innerStride() == 1) &&
                        (matrix.outerSize() <= 1 || matrix.outerStride() == matrix.innerSize());
    if (!packed && matrix.size() > 0)
      detail::refuse_eigen_gaps(" is no contiguous run of elements", matrix.rows(), matrix.cols(),
                                joined({"inner stride ", matrix.innerStride(), " and outer stride ", matrix.outerStride()}));
    return {matrix.data(), static_cast<std::size_t>(matrix.size())};
  }

  // Returns the rows of a row-major table, [rows x columns], possibly with gaps between rows; of a column vector each
  // coefficient is a row. Eigen owns them. Throws Error (invalid_argument) for gaps between the coefficients of a row.
  template <class Self>
  static RowsView<detail::eigen_element<Self>> rows(Self& matrix) {
    static_assert(M::IsRowMajor || M::IsVectorAtCompileTime,
                  "parallax: rows of a table lie one after another: use an Eigen matrix with Eigen::RowMajor");
    static_assert(!M::IsRowMajor || M::SizeAtCompileTime == 0 || !detail::has_gaps_within<M>,
                  "parallax: the rows of this Eigen expression have gaps between their coefficients: copy it, as by eval()");
    if constexpr (!M::IsRowMajor) {
      return {matrix.data(), matrix.rows(), matrix.cols(), matrix.innerStride()};
    } else {
      if (matrix.innerStride() != 1 && matrix.cols() > 1 && matrix.rows() > 0)
        detail::refuse_eigen_gaps(" has no contiguous rows", matrix.rows(), matrix.cols(),
                                  joined({"inner stride ", matrix.innerStride()}));
      return {matrix.data(), matrix.rows(), matrix.cols(), matrix.outerStride()};
    }
  }
};

}  // namespace parallax
