// A policy that takes part in the phase that phase.patch adds: called once an update of a step that is applied, never in another.
#include <cstdio>
#include <stdexcept>

#include "parallax/comm/self.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

int committed = 0;

struct Counting {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Counting";
  template <class Kind>
  struct exchange : px::AllReduce::exchange<Kind> {
    template <px::Communicator C, class Update>
    struct way : px::DenseWay<C, Update> {
      void committed() const noexcept { ++::committed; }
    };
  };
};

int main() {
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> weights(8), others(8), gradient(8, 1.0f);
  px::Variable<px::Dense, Counting> one{session, "one", px::bind(weights)}, two{session, "two", px::bind(others)};
  session.step(px::grad(one, gradient), px::grad(two, gradient));
  session.step(px::grad(one, gradient));
  try {
    session.step(px::grad(one, gradient).transform([](auto) { throw std::runtime_error{"refused"}; }));
    return 1;
  } catch (px::Error const&) {}
  session.finish();
  std::printf("the new phase was called %d times\n", committed);
  return committed == 3 ? 0 : 1;
}
