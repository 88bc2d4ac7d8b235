// expect: parallax: a table is indexed by integers
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void look_up(std::vector<int> const& ids, std::vector<float> const& offsets) {
  auto const rows = session.pull(words.bags(ids, offsets));
}
