// The members of a state that Auto and Choose may ask for beyond those of a TableState: by ChosenWay, and by a step's last act.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/partition/search.hpp"
#include "parallax/detail/policy/auto/choice.hpp"
#include "parallax/detail/policy/auto/row_move.hpp"
#include "parallax/policy/state.hpp"

namespace parallax::inline v0_2 {

// A rank's share of a table that goes over from policy to policy between steps, over ranks of communicator C. All functions are
// local, and all that they return is alike on all ranks, but for routes and the use of the table.
template <class S, class C>
concept AdaptiveTableState = TableState<S> &&
    requires(S& state, S const& seen, Topology<C> const& topology, typename S::Moved& moved) {
  // The policies of the list, in static memory, and the number of the one in force; and a change to one for which no row moves.
  { seen.choices() } -> std::same_as<Slice<Choice const>>;
  { seen.choice() } -> std::same_as<std::size_t>;
  state.change_choice(std::size_t{});
  // True if a rank holds its own shard only, under the policy in force.
  { seen.shards() } -> std::same_as<bool>;
  // The partitioner, with the number of pieces in force; rows and bytes, for predictions.
  { seen.partitioner().pieces } -> std::convertible_to<std::int64_t>;
  { seen.facts() } -> std::same_as<TableFacts>;
  // A move to another policy or other pieces, with its route and the arrays that go by it; may throw std::bad_alloc, or Error
  // (device, out_of_memory). Then, with all rows in place, the end of it: true for another placement.
  { state.begin_move(topology, std::size_t{}, seen.partitioner()) } -> std::same_as<typename S::Moved>;
  { moved.route } -> std::same_as<MoveRoute<typename S::index_type>&>;
  { moved.arrays } -> std::same_as<List<MovingArray>&>;
  state.end_move(std::move(moved), bool{});
  // The use of the table: over steps, by all ranks; and since the last step of the variable, by this rank.
  { state.chooser } -> std::same_as<Chooser&>;
  { state.seen } -> std::same_as<Chooser::Seen&>;
  // The search for a number of pieces, null while none is on; the words told in the step at hand; and the seconds of the
  // session's clock at which the last commit began.
  { state.search } -> std::same_as<Owned<PieceSearch>&>;
  { state.told_words } -> std::same_as<std::size_t&>;
  { state.step_began } -> std::same_as<double&>;
};

}  // namespace parallax
