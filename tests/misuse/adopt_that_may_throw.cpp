// expect: parallax: an optimizer's adopt(p, slots...) is not noexcept
#include <vector>

#include "parallax/parallax.hpp"
namespace px = parallax;

struct Forgetful {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar>;
  double learning_rate = 0.1;
  struct Rule {
    void operator()(auto& p, auto g, auto& sum) const noexcept { p = -(sum += g); }
    void adopt(auto p, auto& sum) const { sum = -p; }
  };
  Rule at(std::int64_t) const { return {}; }
};

int main() {
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> weights(3);
  px::Variable<px::Dense, Forgetful> layer{session, "layer", px::bind(weights)};
  session.step(px::grad(layer, weights));
}
