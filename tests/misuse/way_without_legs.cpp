// expect: parallax: the way of this update policy lacks a next(mails) of its own: over WholeSums the legs next, write and read form the sum (see policy/exchange.hpp)
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
    struct way : px::DenseWay<C, Update, px::WholeSums> {
      void prepare(Update const& update, px::Topology<C> const& topology, px::Preparing how, int clip) {
        px::DenseWay<C, Update, px::WholeSums>::prepare(update, topology, how, clip);
        this->sums_.open(this->gradient_.size());
      }
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
