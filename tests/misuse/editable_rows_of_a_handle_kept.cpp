// expect: parallax: a handle becomes one of editable rows: session.pull(table, ids).editable(), or
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse, px::Subtract> words{session, "words", {.rows = 8, .width = 2}};

void train(std::vector<int> const& ids) {
  auto const rows = session.pull(words, ids);
  rows.editable()[0][0] = 1;
}
