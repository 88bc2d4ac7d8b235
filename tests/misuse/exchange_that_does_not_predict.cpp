// expect: parallax: the exchange of this update policy lacks `static Prediction predict(TableFacts const&, 
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
    using way = typename px::AllReduce::exchange<Kind>::template way<C, Update>;
  };
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory)};

void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
