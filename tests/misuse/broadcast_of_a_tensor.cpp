// expect: parallax: broadcast is given variables, and ranges of variables
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};

void begin(std::vector<float> const& memory) { session.broadcast(memory); }
