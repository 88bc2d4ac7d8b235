// A step and a pull over one communicator, or, with EVERY_COMMUNICATOR, over three: what is compiled for it is what is looked at.
#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

// A user's own.
struct OwnCommunicator : px::SelfCommunicator {};

template <class World>
void train(World& world) {
  px::Session session{world};
  std::vector<float> weights(8), gradient(8), row_gradients(16);
  px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse, px::Auto, px::Adagrad> words{session, "words", {.rows = 100, .width = 8}};
  std::vector<int> const ids{1, 2};
  auto const rows = session.pull(words, ids);
  session.start(px::grad(layer, gradient));
  session.step(px::grad(rows, row_gradients));
  session.finish();
}

#ifdef EVERY_COMMUNICATOR
void every(px::SelfCommunicator& self, px::ThreadCommunicator& threads, OwnCommunicator& own) {
  train(self);
  train(threads);
  train(own);
}
#else
void one(px::SelfCommunicator& self) { train(self); }
#endif
