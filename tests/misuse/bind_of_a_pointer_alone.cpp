// expect: parallax: a pointer is bound with the number of elements that lie there: bind(p, n)
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
float* memory;
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};
