// `Session::assign` and `Session::scale`: rows of a table, set or multiplied by their owners. The session calls the two
// functions at the end; `change_rows` has the phases of both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "parallax/detail/policy/journey/batch.hpp"
#include "parallax/detail/policy/journey/row_delivery.hpp"
#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// Returns, for `assign` and `scale`, true for a table in the host's memory; false after the assertion has told the user.
template <class V>
consteval bool check_rewritten() {
  constexpr bool right = requires { requires V::State::space::host_readable && std::same_as<typename V::kind, Sparse>; };
  static_assert(right, "parallax: rows are assigned and scaled in a Sparse variable in the host's memory");
  return right;
}
// Returns, for `assign`, true if `check_rewritten` does and `Rows` are of the table's scalar; false after an assertion.
template <class V, class Rows>
consteval bool check_assigned() {
  if constexpr (check_rewritten<V>()) {
    constexpr bool right = requires(Rows const& rows) {
      requires std::same_as<typename decltype(rows_view(rows, 1))::value_type, typename V::scalar_type>;
    };
    static_assert(right,
                  "parallax: assign is given a row of the table's scalar type for each index: a row-major table or a "
                  "contiguous range");
    return right;
  }
  return false;
}

// Returns the sentence of an error about the first element with two values: its place, and both givers, as `giver` names a
// position of `rows`, with their values. Empty if rows of one key are alike.
template <class State, class Groups, class T, class Giver>
std::string conflict_text(State const& state, Groups const& groups, RowsView<T const> rows, Giver&& giver) {
  auto const conflict = conflict_in(groups, rows);
  if (!conflict.found) return {};
  auto const given = [&](std::uint32_t at) {
    return joined({giver(at), " gives ", number_text(rows.row(at)[conflict.column])});
  };
  return joined({"row ", state.placement().row(groups.keys[conflict.key]), ", column ", conflict.column, ": ",
                 given(conflict.first), ", ", given(conflict.second)});
}

// Local. Plans this rank's rows for the direct hop, and packs a row of `width` for each distinct key into `packed`. Throws
// Error: bad_id, as the variable's BadIds says; invalid_argument for rows of another shape, or a row given twice and not alike.
template <Communicator C, class State, class Id, class T>
void name_rows(Topology<C> const& topology, State& state, typename State::Plan& plan, std::span<Id const> ids,
               RowsView<T const> given, std::int64_t width, Buffer<T>& packed, char const* operation) {
  auto const refuse = [&](std::string text) {
    throw Error{Errc::invalid_argument, topology.rank(), operation, state.name(), std::move(text)};
  };
  auto const named = static_cast<std::int64_t>(ids.size());
  if (width == 0 && given.rows == 0) given.rows = named;  // empty rows cannot be counted
  if (given.rows != named || given.width != width)
    refuse(joined({"rows of ", (given.rows < 0 ? "?" : std::to_string(given.rows)), " x ", given.width, " for ", named, " x ",
                   width, " named"}));
  plan.prepare(topology.direct());
  make_keys(state, plan, ids, topology.rank(), operation);
  plan.group(state.ops(), ids.size(), state.rows());
  plan.cut(0, state.ops(), state.placement().bases(), state.rows());
  state.count_dropped(plan.dropped);
  auto const& groups = plan.groups;
  auto text = conflict_text(state, groups, given, [](std::uint32_t at) { return joined({"position ", at}); });
  if (!text.empty()) refuse(std::move(text));
  packed.resize_with_slack(groups.size() * static_cast<std::size_t>(width));
  for (std::size_t key = 0; key < groups.size(); ++key)
    std::copy_n(given.row(groups.order[groups.offsets[key]]), width, packed.data() + key * static_cast<std::size_t>(width));
}

// Collective. Changes each row that any rank names, once, by change(T* row, T const* given). All ranks that hold it do so or,
// with an Error, none. `text`: common to all ranks. Two agreements, as in a step. Before the first each rank checks and groups
// its rows; then the rows travel, past all levels of the topology, each once from every rank that names it. Before the second
// the holders compare the values of several ranks. `given`: a row of `width` for each id; with a width of 0 only keys travel.
// Waits for all ranks. Throws the errors of `name_rows`, and mismatch if ranks differ in a row or in `text`.
template <Communicator C, class State, class Id, class T, class Change>
void change_rows(SessionCore<C>& core, Operation operation, State& state, std::span<Id const> ids, RowsView<T const> given,
                 std::int64_t width, std::string const& text, Change&& change) {
  char const* const word = to_string(operation).data();
  core.waiting.guarded(word, [&] {
    core.await_rows(word);
    typename State::Plan plan;
    Buffer<T> packed;
    Fingerprint common;
    common.add(std::string_view{text});
    core.agree_on(state, operation, text, common.value(), [&] {
      state.reserve_adoption();
      name_rows(core.topology, state, plan, ids, given, width, packed, word);
    });
    RowsView<T const> const own{packed.data(), static_cast<std::int64_t>(plan.size()), width};
    RowDelivery<C, typename State::index_type, T> delivery{core.topology, plan, own, state.rows(), state.shards()};
    auto const names = [&] { return state.name(); };
    Traveller<C>* const traveller = &delivery;
    core.waiting.drive(word, [&] { return carry<C>(core.mail, {&traveller, 1}); }, {core.mail, names});
    auto const arrived = delivery.arrived();
    auto const& groups = plan.top();
    std::optional<Error> error;
    auto const rank = [&](std::uint32_t at) { return joined({"rank ", delivery.giver(at)}); };
    if (auto const difference = conflict_text(state, groups, arrived, rank); !difference.empty())
      error = Error{Errc::mismatch, -1, word, state.name(), difference};
    core.waiting.advance(Phase::committing);
    core.rounds.words.assign(1, error ? 0.0 : 1.0);
    core.rounds.tell_all(word, names);
    for (double const can : core.rounds.all_told())
      if (can == 0) throw Refused{core.rounds.explain(word, error ? &*error : nullptr, "")};
    core.waiting.advance(Phase::applying);
    state.rewrite(groups.keys.span(),
                  [&](std::size_t key, T* row) { change(row, arrived.row(groups.order[groups.offsets[key]])); });
  });
}

// Collective. Replaces the named rows by given ones, [ids x width], for `Session::assign`. Slots stay unchanged, except those
// of an optimizer that adopts. Waits and throws as `change_rows`.
template <Communicator C, class Indices, class T>
void assign(SessionCore<C>& core, Indices const& indices, RowsView<T const> rows) {
  auto& state = *indices.state;
  std::int64_t const width = state.width();
  change_rows(core, Operation::assign, state, indices.ids, rows, width, state.registration()->signature,
              [&](T* row, T const* given) { std::copy_n(given, width, row); });
}

// Collective. Multiplies the named rows by `factor`, for `Session::scale`: only keys travel, and each holder of a row
// multiplies its elements in the table's scalar type. The ranks compare the factor. Waits and throws as `change_rows`.
template <Communicator C, class Indices>
void scale(SessionCore<C>& core, Indices const& indices, double factor) {
  using T = typename Indices::state_type::scalar_type;
  auto& state = *indices.state;
  RowsView<T const> const none{nullptr, static_cast<std::int64_t>(indices.ids.size()), 0};
  change_rows(core, Operation::scale, state, indices.ids, none, 0,
              state.registration()->signature + ", factor " + number_text(factor), [&](T* row, T const*) {
                for (std::int64_t c = 0; c < state.width(); ++c) row[c] *= static_cast<T>(factor);
              });
}

}  // namespace parallax::detail
