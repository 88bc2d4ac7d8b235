// expect: parallax: a variable is updated in place: bind memory that is not const
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
float const* memory;
px::Variable<px::Dense> weights{session, "weights", px::bind(memory, 8)};
