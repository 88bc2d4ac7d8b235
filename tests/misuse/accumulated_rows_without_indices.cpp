// expect: parallax: rows are accumulated as updates of the variable: grad(handle, rows) or grad(variable, ids, rows)
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};
px::Accumulator sums{words};

void train(std::vector<float> const& rows) { sums.add(rows); }
