// expect: parallax: a Session is made over a communicator (see comm/communicator.hpp), and this type lacks ialltoallv(channel, transfer)
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct World {
  int rank() const { return 0; }
  int size() const { return 1; }
  std::chrono::nanoseconds deadline() const { return std::chrono::seconds{60}; }
};
World world;
px::Session session{world};
std::vector<float> memory(8);
px::Variable<px::Dense, px::Adam> weights{session, "weights", px::bind(memory)};
px::Variable<px::Sparse> words{session, "words", {.rows = 4, .width = 2}};

void train(std::vector<int> const& ids, std::vector<float> const& gradient) {
  auto const rows = session.pull(words, ids);
  auto next = session.prefetch(words, ids);
  session.start(px::grad(weights, gradient));
  session.poll();
  bool const applied = session.step(px::grad(rows, rows.values()));
  session.broadcast(weights);
  session.join([&] { session.step(); });
  if (applied && session.rank() == 0 && session.size() == 1) session.finish();
}
