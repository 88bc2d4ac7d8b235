// An update policy: a tag that owns the way of a gradient, chosen by a variable's type. `Variable` asks it at the variable's
// declaration.
// The room `policy` has the ways of gradients, and of the ids of a pull, from a rank to the owners and back.
#pragma once

#include <concepts>
#include <string_view>

#include "parallax/comm/wire.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/option.hpp"
#include "parallax/detail/policy/prediction.hpp"

namespace parallax::inline v0_2 {

namespace detail {
// False, but only once a template is instantiated: for assertions in unreachable branches.
template <class>
inline constexpr bool never = false;
}  // namespace detail

// A policy is an empty struct on the policy axis with a name and a nested template `exchange<Kind>`. Each file of this room
// named for a policy is an example; examples/custom_policy has one from outside. `exchange<Kind>` models Exchange:
//   sharded              true: parameters and optimizer state live with their owner; false: every rank holds all of them
//   way<C, Update>       the phases of one update, DenseUpdate or RowUpdate: see policy/exchange.hpp. C is a session's edge to
//                        its communicator (comm/any.hpp): one type for all that carry the same memory
//   predict(…)           the expected traffic and time of a step, for `describe` and `Auto`
//   memory<State>        optional: the policy's memory of a variable from step to step, with `visit(items)` unless it
//                        is empty (see core/archive.hpp)
//   direct               optional, true: batches go straight from every rank to the owners, past the levels of a topology
//   wire                 optional: the form of gradients and rows in transit, a Wire (comm/wire.hpp); by default as they are
//   densified            optional, true: no rank learns the rows touched by others
//   pads                 optional, true: batches may be padded (px::Padded); all traffic goes by the plan's runs, and each
//                        key once
// For an unsupported kind, `exchange<Kind>` holds an assertion with a sentence. An engine with another way asks for another
// member beside `exchange`, and refuses a policy without it.
// A wire rounds these parts of a dense variable, on one rank and on many, between threads and over messages alike:
//   each rank's gradient  before its owner adds it, the owner's own too; the sum of a host once more, on its way to other hosts
//   the result            not sharded: after merging, mean and transform, on its way to all ranks, which apply the same bits
//   the parameters        sharded: after the optimizer, on their way to all ranks, the owner's own too
// and nothing else: norms, and non-finite numbers, are sought in sums as owners have them, slots are in full. Buckets encode
// for ways derived from DenseWay; ways with legs of their own use the wire themselves (detail/transfer/wire_slip.hpp). The
// exchange's `predict` is told the bytes of elements and, as TableFacts::wire, how many of them travel.
template <class P>
concept UpdatePolicy = std::same_as<typename P::axis, policy_axis> && requires {
  { P::name } -> std::convertible_to<std::string_view>;
};

// The members of every `exchange<Kind>` of a policy. Its ways are not asked for here, for they depend on the update: see Way
// (detail/policy/way_checks.hpp).
template <class E>
concept Exchange = requires(TableFacts const& facts, TableUse const& use, RankShape const& shape, Costs const& costs) {
  { E::sharded } -> std::convertible_to<bool>;
  { E::predict(facts, use, shape, costs) } -> std::same_as<Prediction>;
};

// True of an exchange with several policies in turn, known by its member `choices`: see Choose in detail/policy/auto.hpp.
template <class E>
inline constexpr bool is_adaptive = requires {
  E::choices;
};

// True if batches go straight to the owners, past the levels of a topology. Plans ask it when they choose their hops. By
// default they go by the topology's hops.
template <class E>
inline constexpr bool is_direct = requires {
  requires E::direct;
};

// True if batches may be padded, as the exchange's `pads` says. Tables on a device ask it; by default they may not.
template <class E>
inline constexpr bool pads = requires { requires E::pads; };

namespace detail {
// The exchange's `wire`, or, without one, the wire that changes nothing.
template <class E>
struct wire_or_identity {
  using type = IdentityWire;
};
template <class E>
  requires requires { typename E::wire; }
struct wire_or_identity<E> {
  using type = typename E::wire;
};
}  // namespace detail
// The form of gradients and rows in transit under an exchange: a Wire. IdentityWire, of unchanged elements, by default.
template <class E>
using wire_of = typename detail::wire_or_identity<E>::type;

namespace detail {
// Behind `pull_wire_of`.
template <class E, class T>
struct pull_wire {
  using type = wire_of<E>;
};
template <class E, class T>
  requires is_short_float<T>
struct pull_wire<E, T> {
  using type = NarrowWire<T>;
};
}  // namespace detail
// The form of rows kept as T on their way to pulling ranks: of 16 bits as they are kept, others by the exchange's wire.
template <class E, class T>
using pull_wire_of = typename detail::pull_wire<E, T>::type;

namespace detail {
// Returns the value of `wire_share`; 1 for a type that is no wire for T, refused elsewhere.
template <class W, class T>
constexpr double wire_share_of() {
  if constexpr (Wire<W, T>) return static_cast<double>(sizeof(typename W::template element<T>)) / sizeof(T);
  else return 1;
}
}  // namespace detail
// Bytes in transit under an exchange for a byte of a scalar T: told to predictions as TableFacts::wire.
template <class E, class T>
inline constexpr double wire_share = detail::wire_share_of<wire_of<E>, T>();

// True if rows are summed as a gradient of the whole table, and no rank learns the rows touched by others. `Auto` then
// estimates the table's use (detail/policy/auto/choice.hpp). By default ranks learn it.
template <class E>
inline constexpr bool is_densified = requires {
  requires E::densified;
};

namespace detail {

// A policy stands for itself, unless it has `resolve<Kind>`, as presets and `Auto` have.
template <class Policy, class Kind>
struct resolve_policy {
  using type = Policy;
};
template <class Policy, class Kind>
  requires requires { typename Policy::template resolve<Kind>; }
struct resolve_policy<Policy, Kind> {
  using type = typename Policy::template resolve<Kind>;
};

// Members that a policy may lack, in the order of the search; `told`: an assertion of its exchange has named the lack.
enum class PolicyLack { nothing, name, exchange, sharded, predict, told };

// Returns the first member that a policy lacks for variables of a kind, or `nothing`; for the compiler. Variables ask it at
// their declaration, so each mistake is one sentence.
template <class Policy, class Kind>
consteval PolicyLack policy_lacks() {
  if constexpr (!requires {
                  { Policy::name } -> std::convertible_to<std::string_view>;
                }) {
    return PolicyLack::name;
  } else if constexpr (!requires { typename Policy::template exchange<Kind>; }) {
    return PolicyLack::exchange;
  } else {
    using E = typename Policy::template exchange<Kind>;
    if constexpr (!requires { requires sizeof(E) > 0; }) {
      if constexpr (requires { requires sizeof(E) > 0; }) return PolicyLack::told;  // by clang, now that it has looked
      else return PolicyLack::exchange;
    } else if constexpr (!requires {
                           { E::sharded } -> std::convertible_to<bool>;
                         }) {
      return PolicyLack::sharded;
    } else if constexpr (!Exchange<E>) {
      return PolicyLack::predict;
    } else {
      return PolicyLack::nothing;
    }
  }
}

// Fails in one of its assertions if a variable of the kind cannot be under the policy.
template <class Policy, class Kind>
struct check_policy {
  static constexpr PolicyLack lack = policy_lacks<Policy, Kind>();
  static_assert(lack != PolicyLack::name, "parallax: an update policy has a name: static constexpr std::string_view name");
  static_assert(lack != PolicyLack::exchange,
                "parallax: this update policy has no way for a gradient: give it a nested template exchange<Kind> (see "
                "policy/policy.hpp)");
  static_assert(lack != PolicyLack::sharded,
                "parallax: the exchange of this update policy lacks `static constexpr bool sharded`");
  static_assert(lack != PolicyLack::predict,
                "parallax: the exchange of this update policy lacks `static Prediction predict(TableFacts const&, "
                "TableUse const&, RankShape const&, Costs const&)`");
};

}  // namespace detail

// The policy of a variable of a kind whose options name `Policy`: this one, or a preset's choice for the kind.
template <class Policy, class Kind>
using policy_for = typename detail::resolve_policy<Policy, Kind>::type;

}  // namespace parallax
