// expect: parallax: an argument of Variable is no option: it looks like an update policy, and lacks a public `using axis = parallax::policy_axis`
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Mine {
  static constexpr std::string_view name = "Mine";

  template <class Kind>
  struct exchange : px::AllReduce::exchange<Kind> {};
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, px::Adam, Mine> weights{session, "weights", px::bind(memory), px::Adam{}};

void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
