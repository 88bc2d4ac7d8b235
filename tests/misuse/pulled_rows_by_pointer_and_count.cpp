// expect: parallax: rows by pointer are a table: px::RowsView{pointer, rows, width}
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {.rows = 8, .width = 2}};

void train(std::vector<int> const& ids, float const* gradient) {
  auto const rows = session.pull(words, ids);
  session.step(px::grad(rows, gradient, 4));
}
