// expect: parallax: Updates is a list for one type of variable: Updates<Variable<Dense, ...>>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Updates<std::vector<float>> updates;
