// expect: parallax: train is given a function of a worker
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);

void train() {
  session.train([](px::Session<px::SelfCommunicator>&) {});
}
