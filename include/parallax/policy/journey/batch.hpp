// A batch of indices made into a plan, for a pull or for an update that brings indices: keys by the variable's rule for bad
// ids, and bags. Fetches call it, and the ways of rows in their `prepare`. All of it is local.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/core/kind.hpp"
#include "parallax/core/on_device.hpp"
#include "parallax/kernel/host/bags.hpp"
#include "parallax/partition/partitioner.hpp"
#include "parallax/policy/journey/row_plan.hpp"
#include "parallax/policy/policy.hpp"

namespace parallax {

// The hops by which a policy's batches are planned: those of the topology, or the direct one past all hosts. The topology keeps
// them.
template <class E, Communicator C>
Slice<Hop const> route_of(Topology<C> const& topology) {
  return is_direct<E> ? topology.direct() : topology.hops();
}

namespace detail {

// The key of an id outside the table, by the variable's `BadIds`: it is counted in the plan as dropped, stands for the row that
// its hash chooses, or is an Error (bad_id), which it is under `hash`, too, where the table has no rows. Nothing else of a plan
// depends on `BadIds`. `position` is the id's in the batch; `operation` is for the error.
template <class State, class Id>
typename State::index_type key_outside(State const& state, typename State::Plan& plan, Id id, std::size_t position, int rank,
                                       char const* operation) {
  if (state.bad_ids() == BadIds::drop_and_count) {
    ++plan.dropped;
    return static_cast<typename State::index_type>(state.rows());
  }
  if (state.bad_ids() == BadIds::error || state.rows() == 0)
    throw Error{Errc::bad_id, rank, operation, state.name(),
                joined({"index ", id, " at position ", position, " is outside [0, ", state.rows(), ")"})};
  return state.placement().key(hashed_row(static_cast<std::uint64_t>(id), state.rows()));
}

// Fills `plan.keys` with a key for each id of the host's, in their order. `assign` and `scale` call it for plans of their own.
template <class State, class Id>
void make_keys(State const& state, typename State::Plan& plan, std::span<Id const> ids, int rank, char const* operation) {
  plan.keys.resize_with_slack(ids.size());
  auto const rows = static_cast<std::uint64_t>(state.rows());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bool const inside = static_cast<std::uint64_t>(ids[i]) < rows;
    plan.keys[i] = inside ? state.placement().key(static_cast<std::int64_t>(ids[i]))
                          : key_outside(state, plan, ids[i], i, rank, operation);
  }
}

// Puts in the queue the making of keys of ids in a device's memory, of their groups, and of the lengths of their runs.
template <class State, class Id>
void group_there(State& state, typename State::Plan& plan, std::span<OnDevice<Id> const> ids) {
  auto const& placement = state.placement();
  auto const* const bases = state.bases_there().data();
  bool const hashes = state.bad_ids() == BadIds::hash && state.rows() > 0;
  plan.group_there(state.ops(), ids.size(), state.rows(), [&](auto* keys) {
    state.ops().place_ids(reinterpret_cast<Id const*>(ids.data()), ids.size(), placement.layout(), bases, hashes, keys);
  });
  plan.begin_cut(0, bases, state.rows());
}
// Waits for the lengths of their runs, under the communicator's deadline: the device may be behind what waits for a peer. Past it
// the communicator is aborted, and Error (timeout) thrown. Of ids outside the table the first one is refused here, where the
// variable refuses them.
template <Communicator C, class State, class Id>
void take_groups(Topology<C> const& topology, State const& state, typename State::Plan& plan, std::span<OnDevice<Id> const> ids,
                 char const* operation) {
  Patience<C> patience{topology.world()};
  while (!plan.cut_is_here(0)) {
    if (patience.pause()) continue;
    Error const error = timeout_error(topology.world(), -1, operation, state.name());
    topology.world().abort(error);
    throw error;
  }
  plan.end_cut(0);
  if (plan.dropped == 0 || state.bad_ids() == BadIds::drop_and_count) return;
  std::size_t const position = plan.groups.here().order[ids.size() - plan.dropped];
  Id const id = state.ops().read(reinterpret_cast<Id const*>(ids.data()) + position);
  static_cast<void>(key_outside(state, plan, id, position, topology.rank(), operation));
}

// Local. A plan for a batch of indices: its distinct keys, and which of them go to whom on the first hop. In two parts, between
// which a device makes the plans of other batches, too.
template <Communicator C, class State, class Id>
void begin_plan(Topology<C> const& topology, State& state, typename State::Plan& plan, std::span<Id const> ids,
                [[maybe_unused]] char const* operation) {
  plan.prepare(route_of<typename State::Exchange>(topology));
  if constexpr (!is_on_device<Id>) make_keys(state, plan, ids, topology.rank(), operation);
  else if constexpr (State::placed_there)
    if (!ids.empty()) group_there(state, plan, ids);
}
// The second part: the groups of the ids, and the runs of the first hop. Ids on a device that cannot place them are brought to
// the host, and keyed there. Throws Error (bad_id) for an id outside the table, if the variable refuses them.
template <Communicator C, class State, class Id>
void finish_plan(Topology<C> const& topology, State& state, typename State::Plan& plan, std::span<Id const> ids,
                 [[maybe_unused]] char const* operation) {
  if constexpr (!is_on_device<Id>) {
    plan.group(state.ops(), ids.size(), state.rows());
    plan.cut(0, state.ops(), state.placement().bases(), state.rows());
  } else if (State::placed_there && !ids.empty()) {
    take_groups(topology, state, plan, ids, operation);
  } else {
    using Number = decltype(Id::index);
    std::vector<Number> here(ids.size());
    state.ops().to_host(here.data(), reinterpret_cast<Number const*>(ids.data()), here.size());
    make_keys(state, plan, std::span<Number const>{here}, topology.rank(), operation);
    plan.group(state.ops(), here.size(), state.rows());
    plan.cut(0, state.ops(), state.placement().bases(), state.rows());
  }
  state.count_dropped(plan.dropped);
}

// Local. The plan of a pull whose rows have moved since, for the update that was promised to its handle: one entry per index,
// or per distinct one, which keeps how many indices named it.
template <Communicator C, class State>
void remake_plan(Topology<C> const& topology, State const& state, typename State::Plan& plan, typename State::Plan& old,
                 bool per_distinct) {
  plan.prepare(route_of<typename State::Exchange>(topology));
  std::size_t const count = per_distinct ? old.size() : old.indices();
  plan.keys.resize_with_slack(count);
  auto const& groups = old.groups.here();
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t const number = per_distinct ? i : groups.inverse[i];
    plan.dropped += number == old.size();
    plan.keys[i] = number == old.size() ? static_cast<typename State::index_type>(state.rows())
                                        : state.placement().key(old.retired_rows[number]);
  }
  plan.group(state.ops(), count, state.rows());
  plan.cut(0, state.ops(), state.placement().bases(), state.rows());
  if (per_distinct) {
    plan.named.resize_with_slack(count);
    if (old.named.empty()) RowOps<HostSpace>::run_lengths(groups, 0, count, plan.named.data());
    else RowOps<HostSpace>::sum_counts(old.named.span(), groups, 0, count, plan.named.data());
  }
  if (old.bags.count > 0) plan.bags.copy_from(state.ops(), old.bags);
}

// Local. Notes for each index of a plan which bag it lies in, and its factor; bags do not count indices that were dropped.
// Throws Error (invalid_argument) for offsets or weights that do not fit the indices. Called once the plan's groups are made.
template <class Bags, class Plan>
void make_bags(Bags const& given, Plan& plan, int rank) {
  using T = typename Bags::state_type::scalar_type;
  auto const refuse = [&](std::string const& why) {
    throw Error{Errc::invalid_argument, rank, "pull", given.state->name(), why};
  };
  auto const& offsets = given.offsets;
  std::size_t const n = given.ids.size();
  if (offsets.empty() || offsets.front() != 0 || static_cast<std::uint64_t>(offsets.back()) != n)
    refuse(joined({"offsets of bags begin with 0 and end with the number of indices, ", n}));
  for (std::size_t bag = 0; bag + 1 < offsets.size(); ++bag)  // all of them before any is followed
    if (offsets[bag] > offsets[bag + 1])
      refuse(joined({"the offsets of bags descend from ", offsets[bag], " to ", offsets[bag + 1], " at bag ", bag}));
  if (given.weighted && given.weights.size() != n) refuse(joined({given.weights.size(), " weights for ", n, " indices"}));
  if (offsets.size() > std::numeric_limits<std::uint32_t>::max()) refuse(joined({offsets.size() - 1, " bags"}));
  auto& bags = plan.bags;
  bags.count = offsets.size() - 1;
  bags.mean = given.pool == Pool::mean;
  bags.begins.resize_with_slack(offsets.size());
  std::transform(offsets.begin(), offsets.end(), bags.begins.data(),
                 [](auto const offset) { return static_cast<std::uint32_t>(offset); });
  bags.template place<T>(given.state->ops(), plan.groups, given.weights, given.weighted);
}

}  // namespace detail

// The counts of hop 0 that ride in an agreement: how many keys of the plan go to each rank. tell(rank, count) for every target.
template <class Plan, class Tell>
void tell_plan(Plan const& plan, Tell&& tell) {
  auto const& targets = plan.hops.front().targets;
  for (std::size_t t = 0; t < targets.size(); ++t) tell(targets[t], plan.sent(0, t));
}
// The same from the other side: told(rank) is how many keys come from it, asked for every source in order. Then hop 0 can
// travel.
template <class Plan, class Told>
void hear_plan(Plan& plan, Told&& told) {
  auto const& sources = plan.hops.front().sources;
  for (std::size_t s = 0; s < sources.size(); ++s) plan.expect(0, s, told(sources[s]));
}

}  // namespace parallax
