// expect: parallax: a policy with a wire is not among those that are chosen from while training goes on
#include <concepts>
#include <string_view>

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
  struct exchange : px::PsShard::exchange<Kind> {
    using wire = Halves;
  };
};
struct Mine : px::Choose<px::AllGather, Halving> {
  static constexpr std::string_view name = "Mine";
};

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse, Mine> words{session, "words", {4, 2}};
