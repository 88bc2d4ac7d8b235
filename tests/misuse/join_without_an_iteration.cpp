// expect: parallax: join is given an iteration with an empty batch
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};

void finish() { session.join(3); }
