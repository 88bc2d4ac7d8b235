// Expressions of Eigen that are no rows or coefficients one after another.
#include "world.hpp"

#include <parallax/interop/eigen.hpp>

std::vector<float> memory(6);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

#if defined(gradient_with_gaps)
// expect: parallax: the coefficients of this Eigen expression have gaps between them: copy it, as by eval()
void train(Eigen::Matrix<float, 4, 3> const& gradient) { session.step(px::grad(weights, gradient.topRows<2>())); }
#elif defined(rows_in_columns)
// expect: parallax: rows of a table lie one after another: use an Eigen matrix with Eigen::RowMajor
void train(std::vector<int> const& ids, Eigen::MatrixXf const& rows) { session.step(px::grad(words, ids, rows)); }
#elif defined(rows_with_gaps)
// expect: parallax: the rows of this Eigen expression have gaps between their coefficients: copy it, as by eval()
void train(std::vector<int> const& ids, Eigen::Matrix<float, 2, 3> const& columns) {
  session.step(px::grad(words, ids, columns.row(1)));
}
#elif defined(ok_eigen)
using InRows = Eigen::Matrix<float, 2, 3, Eigen::RowMajor>;
Eigen::Matrix<float, 2, 3> matrix;
px::Variable<px::Dense> columns{session, "columns", px::bind(matrix.leftCols<2>())};

void train(std::vector<int> const& ids, Eigen::Matrix<float, 4, 3> const& gradient, InRows const& rows) {
  session.step(px::grad(columns, gradient.topRows<2>().leftCols<2>().eval()), px::grad(words, ids, rows.leftCols<2>()));
  session.step(px::grad(columns, gradient.col(1)), px::grad(words, ids, gradient.transpose().middleRows<2>(1)));
}
#endif
