// expect: parallax: the bound memory is not of the variable's scalar type
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
int* memory;
px::Variable<px::Dense> weights{session, "weights", px::bind(memory, 8)};
