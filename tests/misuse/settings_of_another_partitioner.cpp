// expect: parallax: a Sparse variable is made from a session, a name, its table, its own optimizer and partitioner,
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse, px::Hash> words{session, "words", {4, 2}, px::Cyclic{}};
