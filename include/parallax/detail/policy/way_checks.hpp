// Checks of a policy's way for the demands of a step, with a lack in one sentence: for seats, which name the ways of updates,
// and `Choose`. All of it is for the compiler: nothing here is called while a program runs.
#pragma once

#include <concepts>
#include <string>
#include <type_traits>

#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// Possible lacks of a way, by the name of the phase. `base`: WayBase, shared by all ways.
enum class WayLack { nothing, base, prepare, gradient, deposit, merge, clipped, result, place_of, apply, next, write, read };

// Returns the first missing phase, in a step's order of calls; then, for a way that must have legs of its own, the first one
// left to WayBase, whose legs send nothing; or `nothing`. Phases are asked for as seats call them.
template <class W, class C, class Update>
consteval WayLack way_lacks() {
  using Ranks = Topology<C>;
  if constexpr (!requires(W& way) { way.sought; way.travelling; way.state(); way.clip(); way.leader(); }) return WayLack::base;
  else if constexpr (!requires(W& way, Update const& update, Ranks const& ranks, Preparing how) {
                       way.prepare(update, ranks, how, 0);
                     })
    return WayLack::prepare;
  else if constexpr (!requires(W& way) { way.gradient(); }) return WayLack::gradient;
  else if constexpr (!requires(W& way) { way.deposit(0); }) return WayLack::deposit;
  else if constexpr (!requires(W& way) { way.merge(); }) return WayLack::merge;
  else if constexpr (!requires(W& way, Ranks const& ranks) { way.clipped(ranks); }) return WayLack::clipped;
  else if constexpr (!requires(W& way) { way.result(); }) return WayLack::result;
  else if constexpr (!requires(W& way, NonFiniteElement const& found) { way.place_of(found, true); }) return WayLack::place_of;
  else if constexpr (!requires(W& way) { way.apply(1.0); }) return WayLack::apply;
  else if constexpr (requires { requires W::needs_legs; }) {
    using Base = WayBase<C, Update>;
    if constexpr (requires { requires std::same_as<decltype(&W::next), decltype(&Base::next)>; }) return WayLack::next;
    else if constexpr (requires { requires std::same_as<decltype(&W::write), decltype(&Base::write)>; }) return WayLack::write;
    else if constexpr (requires { requires std::same_as<decltype(&W::read), decltype(&Base::read)>; }) return WayLack::read;
    else return WayLack::nothing;
  } else {
    return WayLack::nothing;
  }
}

// One of its assertions fails if a step cannot take W. It is instantiated for such ways only, by `way_by`.
template <class W, class C, class Update>
struct check_way {
  // The member of the only failing assertion.
  static constexpr WayLack lack = way_lacks<W, C, Update>();
// Asserts that a way does not lack `name`; `text` is the member to write.
#define PARALLAX_WAY_HAS(name, text) \
  static_assert(lack != WayLack::name, "parallax: the way of this update policy lacks " text " (see policy/exchange.hpp)")
  PARALLAX_WAY_HAS(base, "what all ways share: derive it from WayBase<C, Update>");
  PARALLAX_WAY_HAS(prepare, "prepare(update, topology, how, clip)");
  PARALLAX_WAY_HAS(gradient, "gradient()");
  PARALLAX_WAY_HAS(deposit, "deposit(clip)");
  PARALLAX_WAY_HAS(merge, "merge()");
  PARALLAX_WAY_HAS(clipped, "clipped(topology)");
  PARALLAX_WAY_HAS(result, "result()");
  PARALLAX_WAY_HAS(place_of, "place_of(element, of_result)");
  PARALLAX_WAY_HAS(apply, "apply(scale)");
// Asserts that a way over WholeSums has not left the leg `name` to WayBase.
#define PARALLAX_WAY_HAS_LEG(name) \
  PARALLAX_WAY_HAS(name, "a " #name "(mails) of its own: over WholeSums the legs next, write and read form the sum")
  PARALLAX_WAY_HAS_LEG(next);
  PARALLAX_WAY_HAS_LEG(write);
  PARALLAX_WAY_HAS_LEG(read);
#undef PARALLAX_WAY_HAS_LEG
#undef PARALLAX_WAY_HAS
};

// Stand-in for a way after an assertion has told its lack, so that the compiler says it once. Its phases are declared for the
// seat's sake, and defined nowhere.
template <Communicator C, class Update>
struct MistakenWay : WayBase<C, Update> {
  using Elements = RowsView<typename Update::T const>;
  void prepare(Update const&, Topology<C> const&, Preparing, int);
  Elements gradient() const;
  void deposit(int);
  void merge();
  Elements clipped(Topology<C> const&) const;
  Elements result();
  std::string place_of(NonFiniteElement const&, bool) const;
  void apply(double);
};

}  // namespace detail

// A way fit for a step: derived from WayBase, with all phases of policy/exchange.hpp that have no default.
template <class W, class C, class Update>
concept Way = detail::way_lacks<W, C, Update>() == detail::WayLack::nothing;

namespace detail {

// Its assertion fails if an exchange has no `way` for these arguments.
template <class E, class C, class Update>
struct check_has_way_of {
  static_assert(never<E>, "parallax: the exchange of this update policy lacks `template <Communicator C, class Update> way` "
                          "(see policy/policy.hpp)");
};

// The way of an update by an exchange; one that chooses among several has asked for each itself.
template <class E, Communicator C, class Update>
struct way_by {
  static_assert(sizeof(check_has_way_of<E, C, Update>) > 0);
  using type = MistakenWay<C, Update>;
};
template <class E, Communicator C, class Update>
  requires requires { typename E::template way<C, Update>; }
struct way_by<E, C, Update> {
  using W = typename E::template way<C, Update>;
  // True if the step can take it; else an assertion gives the reason, and a MistakenWay stands for the way.
  static constexpr bool right = is_adaptive<E> || Way<W, C, Update>;
  static_assert(sizeof(std::conditional_t<right, W, check_way<W, C, Update>>) > 0);
  using type = std::conditional_t<right, W, MistakenWay<C, Update>>;
};

// The way of an update by its variable's policy. Seats hold one for each update of their argument.
template <Communicator C, class Update>
using way_of = typename way_by<typename Update::State::Exchange, C, Update>::type;

}  // namespace detail
}  // namespace parallax
