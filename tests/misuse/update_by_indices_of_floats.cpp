// expect: parallax: a table is indexed by integers
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void train(std::vector<float> const& ids, std::vector<float> const& rows) { session.step(px::grad(words, ids, rows)); }
