// Row-major matrices, as the rows of a table lie in memory, and their products.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <span>

namespace example {

using Eigen::Index;

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Scalar>
using RowVector = Eigen::Matrix<Scalar, 1, Eigen::Dynamic>;

// A matrix, or rows or columns of one, whatever the expression's own type. Does not own.
template <class Scalar>
using View = Eigen::Ref<Matrix<Scalar>, 0, Eigen::OuterStride<>>;
template <class Scalar>
using ConstView = Eigen::Ref<Matrix<Scalar> const, 0, Eigen::OuterStride<>>;

// Products are functions of views, because Eigen would compile its kernels anew, which takes seconds, for each type of
// expression. Name the scalar: add_product<Scalar>(c, a, b). The target overlaps neither factor.

// target += a b
template <class Scalar>
void add_product(View<Scalar> target, ConstView<Scalar> const& a, ConstView<Scalar> const& b) {
  target.noalias() += a * b;
}

// target += a^T b
template <class Scalar>
void add_product_tn(View<Scalar> target, ConstView<Scalar> const& a, ConstView<Scalar> const& b) {
  target.noalias() += a.transpose() * b;
}

// target += a b^T
template <class Scalar>
void add_product_nt(View<Scalar> target, ConstView<Scalar> const& a, ConstView<Scalar> const& b) {
  target.noalias() += a * b.transpose();
}

// The elements of a matrix that owns them, row after row. Does not own.
template <class M>
std::span<typename M::Scalar> as_span(M& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}
template <class M>
std::span<typename M::Scalar const> as_span(M const& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

}  // namespace example
