// expect: parallax: the gradient's elements are not of the variable's scalar type
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void train(std::vector<int> const& ids, std::vector<int> const& offsets, std::vector<double> const& rows) {
  auto const bags = session.pull(words.bags(ids, offsets));
  session.step(px::grad(bags, rows));
}
