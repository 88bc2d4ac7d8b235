// expect: parallax: the rows of this Eigen expression have gaps between their coefficients: copy it, as by eval()
#include <vector>

#include <parallax/interop/eigen.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void train(std::vector<int> const& ids, Eigen::Matrix<float, 2, 3> const& columns) {
  session.step(px::grad(words, ids, columns.row(1)));
}
