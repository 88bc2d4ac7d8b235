// expect: parallax: a Dense variable takes a gradient for every element, not rows by index
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};

void train(std::vector<int> const& ids, std::vector<float> const& rows) { session.step(px::grad(weights, ids, rows)); }
