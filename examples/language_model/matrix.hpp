// The matrices of the model: row-major, as the rows of a table lie in memory.
#pragma once

#include <Eigen/Core>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <span>

namespace lm {

using Eigen::Index;

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Scalar>
using RowVector = Eigen::Matrix<Scalar, 1, Eigen::Dynamic>;

// Any range of integers that can be indexed: which row of a table each occurrence uses.
template <class R>
concept RowIndices = std::ranges::random_access_range<R> && std::integral<std::ranges::range_value_t<R>>;

// Views a flat span as [span / columns x columns]. Does not own.
template <class Scalar>
auto as_matrix(std::span<Scalar const> values, Index columns) {
  return Eigen::Map<Matrix<Scalar> const>{values.data(), static_cast<Index>(values.size()) / columns, columns};
}

// The elements of a matrix, row after row. Does not own.
template <class Scalar>
std::span<Scalar const> as_span(Matrix<Scalar> const& matrix) {
  return {matrix.data(), static_cast<std::size_t>(matrix.size())};
}

// Row k of `target` becomes the first columns of row indices[first + k] of `rows`.
template <class Scalar, RowIndices Indices>
void gather(std::span<Scalar const> rows, Index width, Indices const& indices, Index first, Matrix<Scalar>& target) {
  auto const table = as_matrix<Scalar>(rows, width);
  auto at = std::ranges::begin(indices) + static_cast<std::ptrdiff_t>(first);
  for (Index k = 0; k < target.rows(); ++k, ++at)
    target.row(k) = table.row(static_cast<Index>(*at)).head(target.cols());
}

}  // namespace lm
