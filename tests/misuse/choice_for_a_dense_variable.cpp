// expect: parallax: what is chosen while training goes on is the way of a Sparse variable
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Mine : px::Choose<px::PsShard, px::AllReduce> {
  static constexpr std::string_view name = "Mine";
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory)};

void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
