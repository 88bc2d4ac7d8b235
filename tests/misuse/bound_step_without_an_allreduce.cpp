// expect: parallax: a bound step needs a communicator with an all-reduce of its own
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};

void bind(px::Variable<px::Dense> const& weights, std::vector<float> const& gradient) {
  session.bind_step(px::grad(weights, gradient));
}
