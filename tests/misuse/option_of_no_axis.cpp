// expect: parallax: an argument of Variable is no option: it looks like an optimizer, and lacks a public `using axis = parallax::optimizer_axis`
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Mine : px::Sgd {
  struct axis {};
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory), Mine{}};
