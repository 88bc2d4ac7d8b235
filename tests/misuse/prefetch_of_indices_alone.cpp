// expect: parallax: a prefetch is of a Sparse variable and the next batch's indices
#include <utility>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {.rows = 4, .width = 2}};

void train(std::vector<int> const& ids, std::vector<float> const& gradient) {
  auto next = session.prefetch(ids);
  auto const rows = session.pull(std::move(next));
  session.step(px::grad(rows, gradient), px::grad(rows, rows.values()));
  if (rows[0][1] > 0) session.finish();
}
