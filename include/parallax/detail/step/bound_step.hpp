// A step that is checked once: the vendor's all-reduces and the optimizers, with nothing around them. `Session::bind_step`
// makes a BoundStep, and the trainer calls it in place of `step`.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "parallax/step/grad.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// One variable of a bound step. Owns the sums, of the gradient's size; refers to the gradient, which outlives it, and shares
// the state.
template <class State>
class BoundUpdate {
 public:
  using T = typename State::scalar_type;

  // Local. Allocates the sums. `ranks`: number of ranks in the mean.
  template <class Update>
  BoundUpdate(Update const& update, int ranks)
      : gradient_{update.gradient.data()},
        sums_{update.gradient.size()},
        state_{update.state},
        divisor_{update.state->divisor(ranks)} {}

  // Collective. Posts the all-reduce of the gradient's present elements; they and `request` stay until its `test` is true.
  template <class Bare>
  void begin(Bare& bare, typename Bare::Request& request) {
    bare.iallreduce(gradient_, sums_.data(), sums_.size(), request);
  }
  // Local, once the sums are here. Applies the optimizer's rule to all elements on this rank.
  void apply() noexcept {
    state_->begin_update();
    state_->apply_sums(0, sums_.data(), sums_.size(), divisor_, T{1}, state_->rule());
    state_->end_update();
  }

 private:
  T const* gradient_;
  Buffer<T> sums_;
  Shared<State> state_;
  T divisor_;
};

// Local. Checks, for `bind_step`, everything about an update that a bound step cannot check any more. Throws Error: misuse if
// the communicator's order of sums is not the vendor's, invalid_argument for a size, and the errors of the optimizer's `at`.
template <Communicator C, class Update>
void check_binding(Topology<C> const& topology, Update const& update) {
  auto const refuse = [&](Errc code, std::string const& why) {
    throw Error{code, topology.rank(), "bind_step", update.state->name(), why};
  };
  if (sum_order(topology.world()) != SumOrder::vendor)
    refuse(Errc::misuse, "a bound step sums in the vendor's order, and the communicator was made with another");
  std::size_t const size = update.state->size();
  if (update.gradient.size() != size)
    refuse(Errc::invalid_argument, joined({"a gradient of ", update.gradient.size(), " elements for a variable of ", size}));
  if (size > std::size_t{std::numeric_limits<std::int32_t>::max()})
    refuse(Errc::invalid_argument, joined({size, " elements are more than one all-reduce takes"}));
  update.state->reserve_update();  // afterwards an exception of `at` ends the program
}

// True if a bound step can do the update: dense, replicated, without transform or wire, in the host's memory, and by an
// optimizer that works element by element.
template <class U>
inline constexpr bool is_plain_dense = false;
template <class S>
inline constexpr bool is_plain_dense<DenseUpdate<S>> =
    S::space::host_readable && !S::sharded && S::by_element && !encodes<wire_of<typename S::Exchange>>;

// Returns, for `bind_step`, true if C and the updates can be bound; false after an assertion has told the user.
template <class C, class... Updates>
consteval bool check_bound() {
  constexpr bool plain = sizeof...(Updates) > 0 && (true && ... && is_plain_dense<Updates>);
  static_assert(BareAllreduce<C>,
                "parallax: a bound step needs a communicator with an all-reduce of its own (bare(), see "
                "comm/communicator.hpp)");
  static_assert(!BareAllreduce<C> || plain,
                "parallax: a bound step is of grad(dense variable, gradient) under AllReduce, without a transform or a "
                "wire, whose optimizer works element by element");
  return BareAllreduce<C> && plain;
}

}  // namespace detail

// A step of dense variables bound once (`session.bind_step`), like a persistent operation of MPI. Every call is, for each
// variable, one all-reduce of the vendor's from its gradient's memory, waited for, averaged and applied by the optimizer, as
// one would write it by hand. Ranks agreed when it was made. Afterwards nothing is checked, no deadline passes and no journal
// is kept: ranks that call it unequally hang or compute nonsense, and a failure of the transport ends the job. So first make
// the step work with `step`. May alternate with the session's other operations, if all ranks do so alike. Move-only. The
// gradients' memory and the communicator must outlive it.
template <Communicator C, class... Updates>
class BoundStep {
 public:
  // Collective. Opens, for `session.bind_step`, the vendor's own communicator, owned by the BoundStep, and allocates sums.
  explicit BoundStep(C& world, Updates const&... updates)
      : bare_{world.bare()}, updates_{detail::BoundUpdate<typename Updates::State>{updates, world.size()}...} {}

  // Collective. Makes one step from the present gradients. Posts all all-reduces, in the order of the updates. Then waits for
  // each and updates its variable: one is applied while others travel. Waits for a missing peer without an end.
  void operator()() {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      typename decltype(bare_)::Request requests[sizeof...(Nth)];
      (std::get<Nth>(updates_).begin(bare_, requests[Nth]), ...);
      (finish(requests[Nth], std::get<Nth>(updates_)), ...);
    }
    (std::index_sequence_for<Updates...>{});
  }

 private:
  // Waits for one all-reduce by asking again and again, without a deadline, then applies it.
  template <class Request, class Update>
  void finish(Request& request, Update& update) {
    while (!bare_.test(request)) {}
    update.apply();
  }

  decltype(std::declval<C&>().bare()) bare_;
  std::tuple<detail::BoundUpdate<typename Updates::State>...> updates_;
};

}  // namespace parallax
