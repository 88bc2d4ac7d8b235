// The beginning of most programs here: a world of one rank, and a session in it.
#include <string>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
