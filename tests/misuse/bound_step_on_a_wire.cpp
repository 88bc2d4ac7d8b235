// expect: parallax: a bound step is of grad(dense variable, gradient) under AllReduce, without a transform or a wire
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

struct Sums {
  struct Request {};
  void iallreduce(float const*, float*, std::size_t, Request&);
  void iallreduce(double const*, double*, std::size_t, Request&);
  bool test(Request&);
};
struct World : px::SelfCommunicator {
  px::SumOrder sum_order() const;
  px::request_of<px::SelfCommunicator> iallreduce(int, float const*, float*, std::size_t);
  px::request_of<px::SelfCommunicator> iallreduce(int, double const*, double*, std::size_t);
  Sums bare();
};

World world;
px::Session session{world};

void bind(px::Variable<px::Dense, Halving> const& layer, std::vector<float> const& gradient) {
  session.bind_step(px::grad(layer, gradient));
}
