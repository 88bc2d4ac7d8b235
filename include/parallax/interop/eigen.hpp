// Eigen's matrices and arrays as tensors of variables and gradients, without a copy.
#pragma once

#include <Eigen/Core>

#include <span>
#include <type_traits>

#include "parallax/core/tensor_traits.hpp"

namespace parallax {

namespace detail {

template <class M>
concept EigenMatrix = std::is_base_of_v<Eigen::DenseBase<M>, M> && requires(M& matrix) {
  matrix.data();
  matrix.innerStride();
  matrix.outerStride();
};

template <class M>
inline constexpr bool is_vector_at_compile_time = M::IsVectorAtCompileTime;

}  // namespace detail

// Matrix, Array, Map and Ref whose inner stride is one. As a dense tensor: any storage order, all columns (or rows) adjacent.
// As a row table: row-major only.
template <detail::EigenMatrix M>
struct tensor_traits<M> {
  template <class Self>
  static auto flat(Self& matrix) {
    return std::span{matrix.data(), static_cast<std::size_t>(matrix.size())};
  }

  template <class Self>
  static auto rows(Self& matrix) {
    static_assert(M::IsRowMajor || detail::is_vector_at_compile_time<M>,
                  "parallax: rows of a table lie one after another: use an Eigen matrix with Eigen::RowMajor");
    using T = std::remove_pointer_t<decltype(matrix.data())>;
    return RowsView<T>{matrix.data(), matrix.rows(), matrix.cols(), M::IsRowMajor ? matrix.outerStride() : 1};
  }
};

}  // namespace parallax
