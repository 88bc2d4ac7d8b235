// A batch of indices made into a plan, for a pull or for an update that brings indices: keys by the variable's rule for bad
// ids, and bags. Fetches call it, and the ways of rows in their `prepare`. All of it is local.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/on_device.hpp"
#include "parallax/detail/kernel/host/bags.hpp"
#include "parallax/detail/policy/journey/row_plan.hpp"
#include "parallax/partition/partitioner.hpp"
#include "parallax/policy/policy.hpp"
#include "parallax/policy/state.hpp"

namespace parallax::inline v0_2 {

// Returns the hops of a policy's batches: the topology's, or the direct one past all hosts. The topology owns them. Local.
template <class E, Communicator C>
Slice<Hop const> route_of(Topology<C> const& topology) {
  return is_direct<E> ? topology.direct() : topology.hops();
}

// Does not own: a variable and the indices of one batch, for one call of `pull` or the like. Variable and indices must outlive
// that call.
template <TableState State, class Id>
struct IndicesOf {
  // The state of the table's variable.
  using state_type = State;
  // The type of an index.
  using id_type = Id;
  // The variable's state.
  State* state;
  // The rows' numbers in the table, in any order, some perhaps twice; the caller's memory.
  std::span<Id const> ids;
};
// Deduces the types from the named arguments.
template <TableState State, class Id>
IndicesOf(State*, std::span<Id const>) -> IndicesOf<State, Id>;

// Does not own: indices in bags, for a pull that pools the rows of each.
template <TableState State, class Id, class Offset>
struct BagsOf : IndicesOf<State, Id> {
  // The type of an offset.
  using offset_type = Offset;
  // The begin of each bag among the indices, and the end of the last; the caller's memory.
  std::span<Offset const> offsets;
  // A weight for each index, if `weighted`; the caller's memory.
  std::span<typename State::scalar_type const> weights;
  // The pooling of a bag's rows.
  Pool pool;
  // True if rows are multiplied by weights before they are added.
  bool weighted;
  // True if the weights lie on the table's device.
  bool weights_there = false;
};

namespace detail {

// A range of rows for indices: the whole, or one of a stack's tables.
struct RowRange {
  // The first row of the range in the whole table, and the number of its rows.
  std::int64_t first, rows;
  // The table's number in its stack; -1 of the whole.
  std::int64_t table = -1;

  // Returns the range of a stack's table; of one table alone, the whole.
  template <TableState State>
  static RowRange of_table(State const& state, std::size_t table) {
    std::int64_t const first = state.first_row(table);
    return {first, state.first_row(table + 1) - first, state.tables() == 1 ? -1 : static_cast<std::int64_t>(table)};
  }
};

// Returns the key of an id outside its range, by the variable's `BadIds`: it is counted in the plan as dropped, stands for the
// row of the range chosen by its hash, or is an Error (bad_id); under `hash`, too, if there are no rows. Nothing else of a plan
// depends on `BadIds`. `position` is the id's in the batch; `rank` and `operation` are for the error.
template <TableState State, class Id>
PARALLAX_COLD typename State::index_type key_outside(State const& state, typename State::Plan& plan, Id id,
                                                     std::size_t position, RowRange range, int rank, char const* operation) {
  if (state.bad_ids() == BadIds::drop_and_count) {
    ++plan.dropped;
    return static_cast<typename State::index_type>(state.rows());
  }
  if (state.bad_ids() == BadIds::error || range.rows == 0)
    throw Error{Errc::bad_id, rank, operation, state.name(),
                joined({"index ", id, " at position ", position, " is outside [0, ", range.rows, ")",
                        range.table < 0 ? "" : joined({" of table ", range.table})})};
  return state.placement().key(range.first + hashed_row(static_cast<std::uint64_t>(id), range.rows));
}

// Fills `plan.keys` with a key for each id of a batch of the host's: of a stack its bags give the table of an id. Local. Throws
// Error (bad_id) as `key_outside` does.
template <TableState State, class Id>
void make_keys(State const& state, typename State::Plan& plan, std::span<Id const> ids, int rank, char const* operation) {
  plan.keys.resize_with_slack(ids.size());
  bool const stacked = state.tables() > 1 && plan.bags.count > 0;
  std::size_t const tables = stacked ? state.tables() : 1;
  for (std::size_t table = 0, i = 0; table < tables; ++table) {
    RowRange const range = stacked ? RowRange::of_table(state, table) : RowRange{0, state.rows()};
    std::size_t const end = stacked ? plan.bags.begins_here(state.ops())[(table + 1) * (plan.bags.count / tables)] : ids.size();
    auto const rows = static_cast<std::uint64_t>(range.rows);
    for (; i < end; ++i) {
      bool const inside = static_cast<std::uint64_t>(ids[i]) < rows;
      plan.keys[i] = inside ? state.placement().key(range.first + static_cast<std::int64_t>(ids[i]))
                            : key_outside(state, plan, ids[i], i, range, rank, operation);
    }
  }
}

// Puts in the queue the making of keys of ids in a device's memory, of their groups, and of the lengths of their runs. Local.
template <TableState State, class Id>
void group_there(State& state, typename State::Plan& plan, std::span<OnDevice<Id> const> ids) {
  auto const& ops = state.ops();
  auto const* const bases = state.bases_there().data();
  auto const layout = state.placement().layout();
  bool const hashes = state.bad_ids() == BadIds::hash;
  bool const stacked = state.tables() > 1 && plan.bags.count > 0;
  auto const stack = stacked ? ops.stack(state.firsts_there(), plan.bags.begins_there(ops))
                             : ops.stack(std::span<typename State::index_type const>{}, {});
  auto const place = [&](auto* keys) {
    ops.place_ids(reinterpret_cast<Id const*>(ids.data()), ids.size(), layout, bases, stack, hashes, keys);
  };
  if constexpr (State::can_pad)
    if (state.padded().on()) return state.padded().pad(state, plan, ids.size(), place);
  plan.group_there(ops, ids.size(), state.rows(), place);
  plan.begin_cut(0, bases, state.rows());
}
// Waits for the lengths of the runs of `group_there`, under the communicator's deadline: the device may be behind work that
// waits for a peer. Past it the communicator is aborted, and Error (timeout) thrown.
template <Communicator C, TableState State>
void await_groups(Topology<C> const& topology, State const& state, typename State::Plan& plan, char const* operation) {
  Patience<C> patience{topology.world()};
  while (!plan.cut_is_here(0)) {
    if (patience.pause()) continue;
    Error const error = timeout_error(topology.world(), -1, operation, state.name());
    topology.world().abort(error);
    throw error;
  }
}
// Throws Error (bad_id) for the first of the ids outside the table, once a device's groups of `count` ids are known, if the
// variable refuses such ids. `id_at(position)` returns an id of the batch.
template <TableState State, class IdAt>
void check_groups(State& state, typename State::Plan& plan, std::size_t count, IdAt const& id_at, int rank,
                  char const* operation) {
  if (plan.dropped == 0 || state.bad_ids() == BadIds::drop_and_count) return;
  std::size_t const position = plan.groups.here().order[count - plan.dropped];
  RowRange range{0, state.rows()};
  if (state.tables() > 1 && plan.bags.count > 0) {
    auto const begins = plan.bags.begins_here(state.ops());
    std::size_t table = 0;
    while (begins[(table + 1) * (plan.bags.count / state.tables())] <= position) ++table;
    range = RowRange::of_table(state, table);
  }
  static_cast<void>(key_outside(state, plan, id_at(position), position, range, rank, operation));
}

// True if a device can plan batches of the variable. `is_planned_there` returns true if it plans one of `count` indices: if
// they lie there, or are so many of the host's that sending them takes less time. The host plans the rest.
template <TableState State>
inline constexpr bool can_plan_there = !State::space::host_readable && State::placed_there;
template <class Id, TableState State>
bool is_planned_there(State& state, std::size_t count) {
  if constexpr (is_on_device<Id>) return count > 0 || state.padded().on();
  else return count > State::Plan::Ops::most_planned_by_host;
}

// Begins as many bags as the offsets of a pull say, local. Offsets on the host are checked here to fit the indices; offsets on
// a device stay there, and `finish_plan` checks them; with `brings` the host takes them, and waits. Throws Error
// (invalid_argument).
template <class Bags, class Offset>
void begin_bags(Bags const& given, typename Bags::state_type::Plan& plan, std::span<Offset const> offsets, int rank,
                [[maybe_unused]] bool brings = false) {
  auto const refuse = [&](std::string const& why) {
    throw Error{Errc::invalid_argument, rank, "pull", given.state->name(), why};
  };
  std::size_t const n = given.ids.size(), tables = given.state->tables();
  if (given.weighted && given.weights.size() != n) refuse(joined({given.weights.size(), " weights for ", n, " indices"}));
  if (offsets.size() > std::numeric_limits<std::uint32_t>::max()) refuse(joined({offsets.size() - 1, " bags"}));
  if (!offsets.empty() && (offsets.size() - 1) % tables != 0)
    refuse(joined({offsets.size() - 1, " bags for a stack of ", tables, " tables, which have as many each"}));
  plan.bags.mean = given.pool == Pool::mean;
  if constexpr (is_on_device<Offset>) {
    using Number = decltype(Offset::index);
    auto const* const there = reinterpret_cast<Number const*>(offsets.data());
    if constexpr (Bags::state_type::placed_there)
      if (!brings && n > 0 && !offsets.empty()) return plan.bags.begin_there(given.state->ops(), there, offsets.size() - 1, n);
    List<Number> here(offsets.size());  // of a plan made by the host
    given.state->ops().to_host(here.data(), there, here.size());
    begin_bags(given, plan, std::span<Number const>{here}, rank);
  } else {
    if (offsets.empty() || offsets.front() != 0 || static_cast<std::uint64_t>(offsets.back()) != n)
      refuse(joined({"offsets of bags begin with 0 and end with the number of indices, ", n}));
    for (std::size_t bag = 0; bag + 1 < offsets.size(); ++bag)  // all of them before any is followed
      if (offsets[bag] > offsets[bag + 1])
        refuse(joined({"the offsets of bags descend from ", offsets[bag], " to ", offsets[bag + 1], " at bag ", bag}));
    plan.bags.begin_here(offsets);
  }
}

// Waits for a batch's groups as `await_groups`. Throws Error (bad_id, invalid_argument) for wrong indices or offsets.
template <Communicator C, class Indices>
void take_groups(Topology<C> const& topology, Indices const& given, typename Indices::state_type::Plan& plan,
                 char const* operation) {
  using Id = typename Indices::id_type;
  auto& state = *given.state;
  await_groups(topology, state, plan, operation);
  [[maybe_unused]] bool const in_order = plan.end_cut(0);
  if constexpr (requires { requires is_on_device<typename Indices::offset_type>; })
    if (!in_order) begin_bags(given, plan, given.offsets, topology.rank(), true);  // this refuses them
  auto const id_at = [&](std::size_t position) {
    if constexpr (!is_on_device<Id>) return given.ids[position];
    else return state.ops().read(reinterpret_cast<decltype(Id::index) const*>(given.ids.data()) + position);
  };
  check_groups(state, plan, given.ids.size(), id_at, topology.rank(), operation);
}

// Makes the first part of a plan for a batch of indices, IndicesOf or BagsOf, local: up to keys, or to the work of a device
// that groups them. Between the parts a device makes other batches' plans, too; many indices of the host's are sent there.
// Throws Error: bad_id and invalid_argument as the second part, misuse for a padded table with indices of the host's.
template <Communicator C, class Indices>
void begin_plan(Topology<C> const& topology, Indices const& given, typename Indices::state_type::Plan& plan,
                [[maybe_unused]] char const* operation) {
  auto& state = *given.state;
  plan.prepare(state.padded().on() ? topology.direct() : route_of<typename Indices::state_type::Exchange>(topology));
  if constexpr (!Indices::state_type::space::host_readable)
    state.padded().check(state, is_on_device<typename Indices::id_type>, topology.rank(), operation);
  if constexpr (requires { given.offsets; }) begin_bags(given, plan, given.offsets, topology.rank());
  using Id = typename Indices::id_type;
  if constexpr (can_plan_there<typename Indices::state_type>)
    if (is_planned_there<Id>(state, given.ids.size())) {
      if constexpr (is_on_device<Id>) return group_there(state, plan, given.ids);
      else return group_there(state, plan, plan.send(state.ops(), given.ids));
    }
  if constexpr (!is_on_device<Id>) make_keys(state, plan, given.ids, topology.rank(), operation);
}
// Makes the second part of the plan: the groups of the ids, the runs of the first hop, and the bags' data by index. Local;
// waits for a device as `await_groups`. Ids on a device that cannot place them are brought to the host. Throws Error: bad_id
// for an id outside the table, if the variable refuses them; invalid_argument for offsets or weights that do not fit the ids.
template <Communicator C, class Indices>
void finish_plan(Topology<C> const& topology, Indices const& given, typename Indices::state_type::Plan& plan,
                 [[maybe_unused]] char const* operation) {
  using State = typename Indices::state_type;
  using Id = typename Indices::id_type;
  State& state = *given.state;
  bool there = false;
  if constexpr (can_plan_there<State>) {
    there = is_planned_there<Id>(state, given.ids.size());
    if (there && !plan.padded)
      take_groups(topology, given, plan, operation);  // of a padded plan nothing is known here, nor asked
  }
  if (!there) {
    if constexpr (is_on_device<Id>) {
      using Number = decltype(Id::index);
      List<Number> here(given.ids.size());
      state.ops().to_host(here.data(), reinterpret_cast<Number const*>(given.ids.data()), here.size());
      make_keys(state, plan, std::span<Number const>{here}, topology.rank(), operation);
    }
    plan.group(state.ops(), given.ids.size(), state.rows());
    plan.cut(0, state.ops(), state.placement().bases(), state.rows());
  }
  state.count_dropped(plan.dropped);
  if constexpr (requires { given.offsets; })
    plan.bags.template place<typename State::scalar_type>(state.ops(), plan.groups, given.weights, given.weighted,
                                                          given.weights_there);
}
// Makes both parts of a plan: `begin_plan`, then `finish_plan`, with their errors.
template <Communicator C, class Indices>
void make_plan(Topology<C> const& topology, Indices const& given, typename Indices::state_type::Plan& plan,
               char const* operation) {
  begin_plan(topology, given, plan, operation);
  finish_plan(topology, given, plan, operation);
}

// Makes in `plan`, local, the plan `old` of a pull again, as its rows have moved since, for the update promised to its handle:
// one entry per index, or `per_distinct`, with the number of indices that named it. Waits for groups made by a device.
template <Communicator C, TableState State>
PARALLAX_COLD void remake_plan(Topology<C> const& topology, State const& state, typename State::Plan& plan,
                               typename State::Plan& old, bool per_distinct) {
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

}  // namespace detail

// Tells the counts of hop 0 in an agreement: calls tell(rank, count) for every target, with the number of the plan's keys.
template <class Plan, class Tell>
void tell_plan(Plan const& plan, Tell&& tell) {
  auto const& targets = plan.hops.front().targets;
  for (std::size_t t = 0; t < targets.size(); ++t) tell(targets[t], plan.sent(0, t));
}
// Takes the counts of hop 0 from an agreement: told(rank) is the number of keys from `rank`, for every source in order. Then
// hop 0 can travel.
template <class Plan, class Told>
void hear_plan(Plan& plan, Told&& told) {
  auto const& sources = plan.hops.front().sources;
  for (std::size_t s = 0; s < sources.size(); ++s) plan.expect(0, s, told(sources[s]));
}

}  // namespace parallax
