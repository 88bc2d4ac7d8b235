// expect: parallax: a difference is of rows that the trainer may change: session.pull(table, ids).editable()
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse, px::Subtract> words{session, "words", {.rows = 8, .width = 2}};

void train(std::vector<int> const& ids) {
  auto const rows = session.pull(words, ids);
  session.step(px::grad(rows, px::difference));
}
