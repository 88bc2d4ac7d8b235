// expect: parallax: the way of this update policy lacks merge() (see policy/exchange.hpp)
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
    class way : public px::WayBase<C, Update> {
      using Elements = px::RowsView<typename Update::T const>;

     public:
      void prepare(Update const& update, px::Topology<C> const&, px::Preparing, int clip) { this->begin(update, clip); }
      Elements gradient() const;
      void deposit(int clip);
      Elements clipped(px::Topology<C> const&) const;
      Elements result();
      std::string place_of(px::NonFiniteElement const&, bool) const;
      void apply(double scale);
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

void train(std::vector<float> const& gradient) {
  std::vector const layers{px::grad(weights, gradient)};
  session.step(px::grad(weights, gradient), layers);
 }
