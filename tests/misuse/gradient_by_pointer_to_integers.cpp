// expect: parallax: the gradient's elements are not of the variable's scalar type
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
float* memory;
px::Variable<px::Dense> weights{session, "weights", px::bind(memory, 8)};

void train(int const* gradient) { session.step(px::grad(weights, gradient, 8)); }
