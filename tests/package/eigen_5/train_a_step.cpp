// A step of a dense variable and of a table, whose memory and gradients are matrices of Eigen 5.
#include <Eigen/Core>
#include <cstdio>
#include <vector>

#include <parallax/interop/eigen.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

static_assert(EIGEN_MAJOR_VERSION == 5);
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int main() {
  px::SelfCommunicator world;
  px::Session session{world};
  Eigen::MatrixXf weights = Eigen::MatrixXf::Ones(4, 2), gradient = Eigen::MatrixXf::Constant(4, 2, 0.5f);
  px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 0.5}};
  px::Variable<px::Sparse, px::Sgd> words{session, "words", {.rows = 10, .width = 3}, px::Sgd{.learning_rate = 0.5}};
  Rows const row_gradients = Rows::Constant(2, 3, 1.0f);
  session.step(px::grad(layer, gradient), px::grad(words, std::vector{7, 7}, row_gradients));
  auto const rows = session.pull(words, std::vector{7});
  session.finish();
  std::printf("Eigen %d: %g %g\n", EIGEN_MAJOR_VERSION, static_cast<double>(weights(3, 1)), static_cast<double>(rows[0][2]));
  return weights(3, 1) == 0.75f && rows[0][2] == -1.0f ? 0 : 1;
}
