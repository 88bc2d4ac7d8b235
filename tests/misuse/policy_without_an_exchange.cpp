// expect: parallax: this update policy has no way for a gradient: give it a nested template exchange<Kind>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Mine {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Mine";
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory)};

void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
