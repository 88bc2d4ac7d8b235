// expect: parallax: the weights of bags are of the variable's scalar type
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void look_up(std::vector<int> const& ids, std::vector<int> const& offsets, std::vector<double> const& weights) {
  auto const rows = session.pull(words.bags(ids, offsets, weights));
}
