// expect: parallax: the gradient of rows is a row-major table or a contiguous range
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void train(std::vector<int> const& ids, std::vector<int> const& offsets, std::vector<float> const& rows) {
  auto const bags = session.pull(words.bags(ids, offsets));
  session.step(px::grad(bags, px::distinct(rows)));
}
