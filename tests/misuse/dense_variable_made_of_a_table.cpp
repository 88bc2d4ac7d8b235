// expect: parallax: a Dense variable is given the memory of its parameters: a session, a name, bind(tensor)
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Dense> weights{session, "weights", px::Table{.rows = 3, .width = 2}};
