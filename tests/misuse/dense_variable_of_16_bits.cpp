// expect: parallax: BFloat16 and Float16 are for the rows of a Sparse variable: a Dense one is of float or double
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, px::BFloat16> weights{session, "weights", px::bind(memory)};
