// expect: parallax: the wire of this policy's exchange<Dense> needs memory that the host reads
#include <concepts>
#include <span>

#include <parallax/comm/staged.hpp>
#include <parallax/kernel/cuda/row_ops.hpp>
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

template <class C>
void train(C& world, std::span<float> parameters, std::span<float const> gradient) {
  px::Session session{world};
  px::Variable<px::Dense, px::CudaSpace, Halving> layer{session, "layer", px::bind(parameters)};
  session.step(px::grad(layer, gradient));
}
template void train(px::Staged<px::SelfCommunicator>&, std::span<float>, std::span<float const>);
