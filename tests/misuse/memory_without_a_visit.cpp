// expect: parallax: the memory<State> of this update policy lacks template <class Items> void visit(Items&), which shows an archive what it keeps
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Mine {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Mine";

  template <class Kind>
  struct exchange : px::AllReduce::exchange<Kind> {
    template <class State>
    struct memory {
      typename State::scalar_type left = 0;
      template <class Items>
      void vist(Items& items) {
        items.number("left", left);
      }
    };
  };
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory)};
px::Variable<px::Dense, Mine> others{session, "others", px::bind(memory)};

struct Archive {
  static constexpr bool reads = false;
  void item(px::Item const&, std::span<std::byte const>) {}
};
void train(std::vector<float> const& gradient) {
  Archive archive;
  session.step(px::grad(weights, gradient), px::grad(others, gradient));
  session.visit(archive, weights, others);
}
