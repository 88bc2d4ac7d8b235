// expect: parallax: the gradient's elements are not of the variable's scalar type
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};
px::Accumulator sums{weights};

void train(std::vector<double> const& gradient) { sums.add(gradient); }
