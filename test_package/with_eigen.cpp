// The component eigen: a matrix is a tensor, without a copy.
#include <cstdio>

#include <parallax/interop/eigen.hpp>

namespace px = parallax;

int main() {
  Eigen::MatrixXf matrix = Eigen::MatrixXf::Ones(2, 3);
  auto const elements = px::flat_view(matrix);
  std::printf("with eigen: %zu elements\n", elements.size());
  return elements.size() == 6 && elements.data() == matrix.data() ? 0 : 1;
}
