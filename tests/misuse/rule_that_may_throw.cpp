// expect: parallax: the optimizer's rule does not fit: rule(auto& p, auto g, auto&... slots) is not noexcept
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Careless {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  double learning_rate = 0.1;
  auto at(std::int64_t) const {
    return [](auto& p, auto g) { p -= g; };
  }
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8);
px::Variable<px::Dense, Careless> weights{session, "weights", px::bind(memory), Careless{.learning_rate = 0.2}};

void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
