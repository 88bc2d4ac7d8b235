// The ways in which workers train that the files beside this one get wrong.
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);
px::Variable<px::Dense, px::PsShard> weights{session, "weights", px::bind(memory)};

void train() {
  session.schedule(weights, [](px::Sgd& rule, auto update) { rule.learning_rate = 0.1 / static_cast<double>(update + 1); });
  session.train([](auto& worker) {
    worker.pull(weights);
    worker.push(px::grad(weights, memory));
  });
  session.together([](auto& all) { all.describe(); });
}
