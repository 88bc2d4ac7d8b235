// expect: parallax: a schedule is a function of the variable's optimizer and of the number of updates before
#include <cstdint>
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);
px::Variable<px::Dense, px::PsShard> weights{session, "weights", px::bind(memory)};

void train() {
  session.schedule(weights, [](std::int64_t update) { return 0.1 / static_cast<double>(update + 1); });
}
