// expect: parallax: a Dense variable is made from a session, a name, bind(tensor), its own optimizer and a Reduce
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory), px::BadIds::hash};
