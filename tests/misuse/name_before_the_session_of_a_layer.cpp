// expect: parallax: a variable is made from a session and a name: the session comes first
#include <string>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8);
std::vector<px::Variable<px::Dense>> layers;
void add(int i) { layers.emplace_back("layer " + std::to_string(i), session, px::bind(memory), px::Sgd{}); }
