// A consumer's first program: one dense variable, one step of gradient descent on one rank.
#include <cstdio>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

int main() {
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> weights(8, 1.0f), gradient(8, 0.5f);
  px::Variable<px::Dense, px::Sgd> variable{session, "weights", px::bind(weights), px::Sgd{.learning_rate = 0.5}};
  session.step(px::grad(variable, gradient));
  session.finish();
  std::printf("parallax %d.%d.%d: weights[0] = %g\n", PARALLAX_VERSION_MAJOR, PARALLAX_VERSION_MINOR,
              PARALLAX_VERSION_PATCH, weights[0]);
  return weights[0] == 0.75f ? 0 : 1;
}
