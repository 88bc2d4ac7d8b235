// expect: parallax: in_place takes a gradient that may be overwritten, this one is const
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};

void train(std::vector<float> const& gradient) { session.step(px::grad(weights, px::in_place(gradient))); }
