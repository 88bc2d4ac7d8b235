// expect: parallax: AllReduce sends rows, and their counts, as they are: leave out the wire of exchange<Sparse>
#include <concepts>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Halves {
  template <std::same_as<float> T>
  using element = short;
  static void encode(float const*, std::size_t, short*) {}
  static void decode(short const*, std::size_t, float*) {}
};
struct Halving {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Halving";
  template <class Kind>
  struct exchange : px::AllReduce::exchange<Kind> {
    using wire = Halves;
  };
};

px::SelfCommunicator world;
px::Session session{world};

void train(px::Variable<px::Sparse, Halving> const& table, std::vector<int> const& ids, std::vector<float> const& rows) {
  session.step(px::grad(table, ids, rows));
}
