// expect: parallax: a Dense variable is made from a session, a name, bind(tensor), its own optimizer and a Reduce
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8);
px::Variable<px::Dense, px::Adam> weights{session, "weights", px::bind(memory), px::Sgd{.learning_rate = 0.1}};
