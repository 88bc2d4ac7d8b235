// expect: parallax: the bound memory is not of the variable's scalar type
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<double> memory(8);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};
