// expect: parallax: rows of a table lie one after another: use an Eigen matrix with Eigen::RowMajor
#include <vector>

#include <parallax/interop/eigen.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void train(std::vector<int> const& ids, Eigen::MatrixXf const& rows) { session.step(px::grad(words, ids, rows)); }
