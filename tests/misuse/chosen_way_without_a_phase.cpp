// expect: parallax: the way of this update policy lacks gradient() (see policy/exchange.hpp)
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Lacking {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Lacking";

  template <class Kind>
  struct exchange {
    static constexpr bool sharded = true;
    template <px::Communicator C, class Update>
    struct way : px::WayBase<C, Update> {
      void prepare(Update const&, px::Topology<C> const&, px::Preparing, int);
    };
    static px::Prediction predict(px::TableFacts const&, px::TableUse const&, px::RankShape const&, px::Costs const&) {
      return {};
    }
  };
};
struct Mine : px::Choose<px::PsShard, Lacking> {
  static constexpr std::string_view name = "Mine";
};

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse, Mine> words{session, "words", {4, 2}};

void train(std::vector<int> const& ids, std::vector<float> const& rows) { session.step(px::grad(words, ids, rows)); }
