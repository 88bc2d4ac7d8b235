// expect: parallax: an update policy has a name: static constexpr std::string_view name
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Mine {
  using axis = px::policy_axis;
  template <class Kind>
  using exchange = px::AllReduce::exchange<Kind>;
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory)};

void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
