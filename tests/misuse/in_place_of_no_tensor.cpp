// expect: parallax: a Dense variable's gradient is a tensor with contiguous elements (see tensor_traits)
#include <list>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};

void train(std::list<float>& gradient) { session.step(px::grad(weights, px::in_place(gradient))); }
