// expect: parallax: a variable is made from a session and a name: the session comes first
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{"words", session, {.rows = 4, .width = 2}};
