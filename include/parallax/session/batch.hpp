// A batch of indices made into a plan: keys by the policy for bad ids, bags, and what a handle shows of a pull.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/on_device.hpp"
#include "parallax/kernel/host_bags.hpp"
#include "parallax/policy/row_plan.hpp"
#include "parallax/session/update.hpp"

namespace parallax::detail {

// The key of an id outside the table, by the variable's policy. Nothing else of a plan depends on it.
template <class State, class Id>
typename State::index_type key_outside(State const& state, typename State::Plan& plan, Id id, std::size_t position, int rank,
                                       char const* operation) {
  if (state.bad_ids() == BadIds::drop_and_count) {
    ++plan.dropped;
    return static_cast<typename State::index_type>(state.rows());
  }
  if (state.bad_ids() == BadIds::error || state.rows() == 0)
    throw Error{Errc::bad_id, rank, operation, state.name(), "index " + std::to_string(id) + " at position " +
                    std::to_string(position) + " is outside [0, " + std::to_string(state.rows()) + ")"};
  return state.placement().key(hashed_row(static_cast<std::uint64_t>(id), state.rows()));
}

template <class State, class Id>
void make_keys(State const& state, typename State::Plan& plan, std::span<Id const> ids, int rank,
               char const* operation) {
  plan.keys.resize_with_slack(ids.size());
  auto const rows = static_cast<std::uint64_t>(state.rows());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bool const inside = static_cast<std::uint64_t>(ids[i]) < rows;
    plan.keys[i] = inside ? state.placement().key(static_cast<std::int64_t>(ids[i]))
                          : key_outside(state, plan, ids[i], i, rank, operation);
  }
}

// The same of ids in a device's memory, and their groups, all made there where the layout of rows can be known there.
template <class State, class Id>
void group_there(State const& state, typename State::Plan& plan, std::span<OnDevice<Id> const> ids, int rank,
                 char const* operation) {
  using Index = typename State::index_type;
  auto const& ops = state.ops();
  auto const* const there = reinterpret_cast<Id const*>(ids.data());
  auto const& placement = state.placement();
  if constexpr (requires { requires std::remove_cvref_t<decltype(placement.layout())>::on_device; }) {
    if (!ids.empty()) {
      bool const hashes = state.bad_ids() == BadIds::hash && state.rows() > 0;
      Index const* const bases = plan.shown_keys(ops, placement.bases()).data();
      plan.group_there(ops, ids.size(), state.rows(), [&](Index* keys) {
        ops.place_ids(there, ids.size(), placement.layout(), bases, hashes, keys);
      });
      if (plan.dropped == 0 || state.bad_ids() == BadIds::drop_and_count) return;
      std::size_t const position = plan.levels[0].order[ids.size() - plan.dropped];
      key_outside(state, plan, ops.read(there + position), position, rank, operation);
    }
  }
  std::vector<Id> here(ids.size());
  ops.to_host(here.data(), there, here.size());
  make_keys(state, plan, std::span<Id const>{here}, rank, operation);
  plan.group(here.size(), state.rows());
}

// Local. A plan for a batch of indices: its distinct keys, and which of them go to whom on the first hop.
template <Communicator C, class State, class Id>
void make_plan(Topology<C> const& topology, State& state, typename State::Plan& plan, std::span<Id const> ids,
               char const* operation) {
  plan.prepare(State::Exchange::coalesced ? topology.hops() : topology.direct());
  if constexpr (is_on_device<Id>) {
    group_there(state, plan, ids, topology.rank(), operation);
  } else {
    make_keys(state, plan, ids, topology.rank(), operation);
    plan.group(ids.size(), state.rows());
  }
  plan.cut(0, state.placement().bases());
  state.count_dropped(plan.dropped);
}

// Local. The plan of a pull whose rows have moved since, for the update that was promised to its handle: one entry per index,
// or per distinct one.
template <Communicator C, class State>
void remake_plan(Topology<C> const& topology, State const& state, typename State::Plan& plan,
                 typename State::Plan const& old, bool per_distinct) {
  plan.prepare(topology.hops());
  std::size_t const count = per_distinct ? old.size() : old.indices();
  plan.keys.resize_with_slack(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t const number = per_distinct ? i : old.levels[0].inverse[i];
    plan.dropped += number == old.size();
    plan.keys[i] = number == old.size() ? static_cast<typename State::index_type>(state.rows())
                                        : state.placement().key(old.retired_rows[number]);
  }
  plan.group(count, state.rows());
  plan.cut(0, state.placement().bases());
  if (old.bags.count > 0) plan.bags.copy_from(old.bags);
}

// Local. Notes for each index of a plan which bag it lies in, and its factor; an index that was dropped lies in none.
template <class Bags, class Plan>
void make_bags(Bags const& given, Plan& plan, int rank) {
  using T = typename Bags::state_type::scalar_type;
  auto const refuse = [&](std::string const& why) {
    throw Error{Errc::invalid_argument, rank, "pull", given.state->name(), why};
  };
  auto const& offsets = given.offsets;
  std::size_t const n = given.ids.size();
  if (offsets.empty() || offsets.front() != 0 || static_cast<std::uint64_t>(offsets.back()) != n)
    refuse("offsets of bags begin with 0 and end with the number of indices, " + std::to_string(n));
  if (given.weighted && given.weights.size() != n)
    refuse(std::to_string(given.weights.size()) + " weights for " + std::to_string(n) + " indices");
  if (offsets.size() > std::numeric_limits<std::uint32_t>::max()) refuse(std::to_string(offsets.size() - 1) + " bags");
  auto& bags = plan.bags;
  bags.count = offsets.size() - 1;
  bags.mean = given.pool == Pool::mean;
  bags.factored = given.weighted || bags.mean;
  bags.begins.resize_with_slack(offsets.size());
  bags.of_index.resize_with_slack(n);
  bags.kept.resize_with_slack(bags.count);
  bags.factors.resize_with_slack(bags.factored ? n * sizeof(T) : 0);
  bags.renew();
  T* const factors = reinterpret_cast<T*>(bags.factors.data());
  auto const& inverse = plan.levels[0].inverse;
  std::transform(offsets.begin(), offsets.end(), bags.begins.data(),
                 [](auto const offset) { return static_cast<std::uint32_t>(offset); });
  for (std::size_t bag = 0; bag < bags.count; ++bag) {
    if (offsets[bag] > offsets[bag + 1])
      refuse("the offsets of bags descend from " + std::to_string(offsets[bag]) + " to " + std::to_string(offsets[bag + 1]) +
             " at bag " + std::to_string(bag));
    auto const begin = static_cast<std::size_t>(offsets[bag]), end = static_cast<std::size_t>(offsets[bag + 1]);
    std::uint32_t kept = 0;
    for (std::size_t i = begin; i < end; ++i) {
      bags.of_index[i] = static_cast<std::uint32_t>(bag);
      kept += inverse[i] < plan.size();
    }
    bags.kept[bag] = std::max(kept, 1u);
    for (std::size_t i = begin; i < end && bags.factored; ++i)
      factors[i] = given.weighted ? given.weights[i] : T{1} / static_cast<T>(bags.kept[bag]);
  }
}

// Local, once the rows of a pull are here: what a handle shows of them.
template <class State>
void finish_pull(PulledRows<State> const& handle) {
  if (handle.dropped() > 0)
    handle.plan()->append_zeros(handle.state().ops(),
                                static_cast<std::size_t>(handle.width()) * sizeof(typename State::scalar_type));
}
template <class State>
void finish_pull(PulledBags<State> const& handle) {
  using T = typename State::scalar_type;
  finish_pull(handle.rows());
  auto& plan = *handle.plan();
  auto& bags = plan.bags;
  auto const& ops = handle.state().ops();
  bags.pooled.resize_with_slack(bags.count * static_cast<std::size_t>(handle.width()) * sizeof(T));
  T* const out = reinterpret_cast<T*>(bags.pooled.data());
  RowTerms<T> const terms{handle.rows().values(), ops.inverse(plan.shown(0, ops)).data(),
                          bags.mean ? nullptr : bags.template shown_factors<T>(ops)};
  ops.sum_term_runs(terms, bags.shown_begins(ops), out);
  if (bags.mean) ops.scale_rows_down(out, handle.width(), bags.shown_kept(ops));
}

// The counts of hop 0 that ride in an agreement: how many keys of the plan go to each rank.
template <class Plan, class Tell>
void tell_plan(Plan const& plan, Tell&& tell) {
  auto const& targets = plan.hops->front().targets;
  for (std::size_t t = 0; t < targets.size(); ++t) tell(targets[t], plan.sent(0, t));
}
template <class Plan, class Told>
void hear_plan(Plan& plan, Told&& told) {
  auto const& sources = plan.hops->front().sources;
  for (std::size_t s = 0; s < sources.size(); ++s) plan.expect(0, s, told(sources[s]));
}

}  // namespace parallax::detail
