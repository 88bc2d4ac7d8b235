// Auto: chooses among policies while training goes on. A user's own list of policies is Choose<...> with a name. Variables name
// either; the rules of the choice, and of its times, are in detail/policy/auto/.
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>

#include "parallax/detail/policy/all_gather.hpp"
#include "parallax/detail/policy/auto/adaptation.hpp"
#include "parallax/detail/policy/way_checks.hpp"
#include "parallax/policy/all_reduce.hpp"
#include "parallax/policy/ps_shard.hpp"

namespace parallax::inline v0_2 {

namespace detail {

// The way of an update whose variable goes over from policy to policy: the ways of all, with the present one in use. Seats call
// its `prepare`, and all other phases of the way shown by `active`. A policy changes between steps only.
template <Communicator C, class Update, class... Policies>
class ChosenWay {
 public:
  using State = typename Update::State;
  static_assert(AdaptiveTableState<State, C>);
  using T = typename State::scalar_type;
  using Space = typename State::space;

  // Prepares the way of the policy in force, which stays in use until the next `prepare`. Local; throws this way's errors.
  void prepare(Update const& update, Topology<C> const& topology, Preparing how, int clip) {
    choice_ = update.state->choice();
    active([&](auto& way) { way.prepare(update, topology, how, clip); });
  }

  // Calls f with the way of the policy as of the last `prepare`, and returns f's result.
  template <class F>
  decltype(auto) active(F&& f) {
    return pick<0>(f);
  }

 private:
  // Calls f with the way of policy number `choice_`, sought from Nth on; with the last one if it is none before.
  template <std::size_t Nth, class F>
  decltype(auto) pick(F& f) {
    if constexpr (Nth + 1 == sizeof...(Policies)) return f(std::get<Nth>(ways_));
    else if (choice_ == Nth) return f(std::get<Nth>(ways_));
    else return pick<Nth + 1>(f);
  }

  // The policy's number among `Policies`, as of the last `prepare`.
  std::size_t choice_ = 0;
  // The ways, one for each policy. Idle ones keep their scratch.
  std::tuple<typename way_by<typename Policies::template exchange<Sparse>, C, Update>::type...> ways_;
};

// An exchange with several policies in turn. Its batches are planned over the topology's hops.
template <class... Policies>
struct ChosenExchange {
  // The choices; the first is in force at the outset. By this member an exchange is adaptive.
  static constexpr Choice choices[] = {choice_of<Policies, Sparse>()...};
  // True if the first policy shards. Later the variable's state knows.
  static constexpr bool sharded = choices[0].sharded;
  static_assert((true && ... && !is_direct<typename Policies::template exchange<Sparse>>),
                "parallax: a policy that goes past the levels of a topology is not among those chosen from while "
                "training goes on");
  static_assert((true && ... && std::same_as<wire_of<typename Policies::template exchange<Sparse>>, IdentityWire>),
                "parallax: a policy with a wire is not among those chosen from while training goes on");

  // The ways of all policies of the list.
  template <Communicator C, class Update>
  using way = ChosenWay<C, Update, Policies...>;

  // Returns the prediction of the list's first policy.
  static Prediction predict(TableFacts const& table, TableUse const& use, RankShape const& shape, Costs const& costs) {
    return choices[0].predict(table, use, shape, costs);  // as it begins; the variable knows the one in force
  }
};

}  // namespace detail

// Sparse: begins as the first of the policies, and goes over to others and back, live, if by the measured use of the table and
// the policies' predictions it is worth it. The library owns the table's memory. A list of one's own:
//   struct Mine : px::Choose<px::PsShard, MyPolicy> { static constexpr std::string_view name = "Mine"; };
template <class... Policies>
struct Choose {
  // A type derived from it stands among a variable's options for its policy.
  using axis = policy_axis;

  // The exchange of tables.
  template <class Kind>
  struct exchange : detail::ChosenExchange<Policies...> {};
  // For dense variables: an assertion, and a stand-in for the compiler after it.
  template <std::same_as<Dense> Kind>
  struct exchange<Kind> : AllReduce::exchange<Dense> {
    static_assert(detail::never<Kind>, "parallax: what is chosen while training goes on is the way of a Sparse variable");
  };
};

// Sparse: begins as PsShard, and goes over to AllGather or AllReduce and back, as Choose does. Dense: AllReduce.
struct Auto : Choose<PsShard, AllGather, AllReduce> {
  // The policy's name in messages and `describe`, whatever policy is in force.
  static constexpr std::string_view name = "Auto";

  // Itself, of tables; AllReduce of dense variables.
  template <class Kind>
  using resolve = std::conditional_t<std::same_as<Kind, Dense>, AllReduce, Auto>;
};

}  // namespace parallax
