// The matrices of the model, and the rows of a table that a batch uses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../matrix.hpp"
#include "shape.hpp"

namespace lm {

using example::add_product;
using example::add_product_nt;
using example::add_product_tn;
using example::as_span;
using example::ConstView;
using example::Matrix;
using example::RowVector;

// Which of the given rows each occurrence uses.
using RowIndices = std::span<std::uint32_t const>;

// Views a flat span as [span / columns x columns]. Does not own.
template <class Scalar>
auto as_matrix(std::span<Scalar const> values, Index columns) {
  return Eigen::Map<Matrix<Scalar> const>{values.data(), static_cast<Index>(values.size()) / columns, columns};
}

// Views a flat span, or a row of a matrix, as an array. Does not own.
template <class Scalar>
using Row = Eigen::Map<Eigen::Array<Scalar, 1, Eigen::Dynamic>>;
template <class Scalar>
Row<Scalar> as_row(std::span<Scalar> values) {
  return {values.data(), static_cast<Index>(values.size())};
}
template <class Scalar>
Row<Scalar> row(Matrix<Scalar>& matrix, Index k) {
  return {matrix.row(k).data(), matrix.cols()};
}

// Row k of `target` becomes row indices[k] of `rows`, which are as wide.
template <class Scalar>
void gather(std::span<Scalar const> rows, RowIndices indices, Matrix<Scalar>& target) {
  auto const width = static_cast<std::size_t>(target.cols());
  for (std::size_t k = 0; k < static_cast<std::size_t>(target.rows()); ++k)
    std::ranges::copy(rows.subspan(indices[k] * width, width), target.data() + k * width);
}

}  // namespace lm
