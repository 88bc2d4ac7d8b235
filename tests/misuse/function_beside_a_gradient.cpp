// expect: parallax: a Dense variable takes a gradient for every element, not rows by index; a function of the reduced gradient is given by grad(variable, gradient).transform(f)
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};

void train(std::vector<float> const& gradient) {
  session.step(px::grad(weights, gradient, [](auto sum) { sum.values[0] = 0; }));
}
