// expect: parallax: bind takes a tensor, which is a contiguous range or a type of which px::tensor_traits is specialised
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
void* memory;
px::Variable<px::Dense> weights{session, "weights", px::bind(memory, 8)};
