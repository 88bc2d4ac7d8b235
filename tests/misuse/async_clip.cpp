// expect: parallax: a norm over all ranks is known to none of them alone
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);
px::Variable<px::Dense, px::PsShard> weights{session, "weights", px::bind(memory)};

void train() {
  session.train([](auto& worker) { worker.push(px::clip_by_global_norm(1.0, px::grad(weights, memory))); });
}
