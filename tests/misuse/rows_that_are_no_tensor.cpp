// expect: parallax: the gradient of rows is a row-major table or a contiguous range
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void train(std::vector<int> const& ids) { session.step(px::grad(words, ids, 0.5f)); }
