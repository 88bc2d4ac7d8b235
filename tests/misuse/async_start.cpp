// expect: parallax: an AsyncSession has no start
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);
px::Variable<px::Dense, px::PsShard> weights{session, "weights", px::bind(memory)};

void train() { session.start(px::grad(weights, memory)); }
