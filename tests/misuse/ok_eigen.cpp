// What the programs beside this one get wrong with Eigen's expressions, done right.
#include <vector>

#include <parallax/interop/eigen.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

using InRows = Eigen::Matrix<float, 2, 3, Eigen::RowMajor>;

px::SelfCommunicator world;
px::Session session{world};
Eigen::Matrix<float, 2, 3> memory;
px::Variable<px::Dense> weights{session, "weights", px::bind(memory.leftCols<2>())};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void train(std::vector<int> const& ids, Eigen::Matrix<float, 4, 3> const& gradient, InRows const& rows) {
  session.step(px::grad(weights, gradient.topRows<2>().leftCols<2>().eval()), px::grad(words, ids, rows.leftCols<2>()));
  session.step(px::grad(weights, gradient.col(1)), px::grad(words, ids, gradient.transpose().middleRows<2>(1)));
}
