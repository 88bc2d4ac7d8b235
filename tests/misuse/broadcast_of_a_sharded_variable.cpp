// expect: parallax: a sharded variable has one copy of every row; there is nothing to broadcast
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse> words{session, "words", {4, 2}};

void begin() { session.broadcast(words); }
