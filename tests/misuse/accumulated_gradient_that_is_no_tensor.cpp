// expect: parallax: a Dense variable's gradient is a tensor with contiguous elements
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};
px::Accumulator sums{weights};

void train() { sums.add(0.5f); }
