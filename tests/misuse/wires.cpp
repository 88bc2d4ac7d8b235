// Policies with a wire of fewer bits, and bound steps, where they cannot be; a communicator with a sum of its own.
#include <concepts>
#include <span>
#include <string_view>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Halves {
  template <std::same_as<float> T>
  using element = short;
  static void encode(float const*, std::size_t, short*) {}
  static void decode(short const*, std::size_t, float*) {}
};
template <class Policy>
struct Halved {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Halved";
  template <class Kind>
  struct exchange : Policy::template exchange<Kind> {
    using wire = Halves;
  };
};
using Halving = Halved<px::AllReduce>;

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

#if defined(bound_step_of_rows)
// expect: parallax: a bound step is of grad(dense variable, gradient) under AllReduce, without a transform
void bind(px::Variable<px::Sparse> const& table, std::vector<int> const& ids, std::vector<float> const& rows) {
  session.bind_step(px::grad(table, ids, rows));
}
#elif defined(bound_step_on_a_wire)
// expect: parallax: a bound step is of grad(dense variable, gradient) under AllReduce, without a transform or a wire
void bind(px::Variable<px::Dense, Halving> const& layer, std::vector<float> const& gradient) {
  session.bind_step(px::grad(layer, gradient));
}
#elif defined(choice_of_a_policy_with_a_wire)
// expect: parallax: a policy with a wire is not among those chosen from while training goes on
struct Mine : px::Choose<px::AllGather, Halved<px::PsShard>> {
  static constexpr std::string_view name = "Mine";
};
px::Variable<px::Sparse, Mine> words{session, "words", {4, 2}};
#elif defined(dense_wire_of_another_scalar)
// expect: parallax: the wire of this policy's exchange<Dense> does not encode the variable's scalar
void train(px::Variable<px::Dense, double, Halving> const& layer, std::vector<double> const& gradient) {
  session.step(px::grad(layer, gradient));
}
#elif defined(dense_wire_out_of_reach)
// expect: parallax: the wire of this policy's exchange<Dense> needs memory that the host reads
#include <parallax/comm/staged.hpp>
#include <parallax/kernel/cuda/row_ops.hpp>
template <class C>
void train(C& staged, std::span<float> parameters, std::span<float const> gradient) {
  px::Session on_device{staged};
  px::Variable<px::Dense, px::CudaSpace, Halving> layer{on_device, "layer", px::bind(parameters)};
  on_device.step(px::grad(layer, gradient));
}
template void train(px::Staged<px::SelfCommunicator>&, std::span<float>, std::span<float const>);
#elif defined(densified_rows_on_a_wire)
// expect: parallax: AllReduce sends rows, and their counts, as they are: leave out the wire of exchange<Sparse>
void train(px::Variable<px::Sparse, Halving> const& table, std::vector<int> const& ids, std::vector<float> const& rows) {
  session.step(px::grad(table, ids, rows));
}
#endif
