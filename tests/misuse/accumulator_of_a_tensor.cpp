// expect: parallax: an Accumulator is made of a Dense or Sparse variable
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Accumulator sums{memory};
