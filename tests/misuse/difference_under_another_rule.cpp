// expect: parallax: a difference is taken by a table whose optimizer is p -= g: px::Subtract, or one that says
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse, px::Sgd> words{session, "words", {.rows = 8, .width = 2}};

void train(std::vector<int> const& ids) {
  auto const rows = session.pull(words, ids).editable();
  session.step(px::grad(rows, px::difference));
}
