// expect: parallax: the way of this update policy lacks what all ways share: derive it from WayBase<C, Update>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Mine {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Mine";

  template <class Kind>
  struct exchange {
    static constexpr bool sharded = false;
    template <px::Communicator C, class Update>
    struct way {
      void prepare(Update const& update, px::Topology<C> const&, px::Preparing, int clip);
    };
    static px::Prediction predict(px::TableFacts const&, px::TableUse const&, px::RankShape const&, px::Costs const&) {
      return {};
    }
  };
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory)};

void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
