// The last act of a step for tables under Auto: choices are made from all ranks' words, and rows are moved. Seats call it for
// the variables of their updates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/partition/search.hpp"
#include "parallax/detail/policy/auto/choice.hpp"
#include "parallax/detail/policy/auto/costs.hpp"
#include "parallax/detail/policy/auto/row_move.hpp"
#include "parallax/detail/policy/auto/state.hpp"

namespace parallax::inline v0_2::detail {

// The session's means for variables at the end of a step: the costs, and ways to move rows and to note the reason. Refers to
// the session's members, for the time of one step's last act.
template <Communicator C>
struct Adapting {
  // The session's.
  Topology<C> const& topology;
  AutoOptions const& options;
  // Costs measured by this session, if the options have none.
  Costs &measured, &measured_on_device;
  // The number of the step at hand in its session.
  std::int64_t step;
  // The lane of moving rows.
  Lane<C>& lane;
  // Collective. drive(variable, poll): waits, as the session does, until `poll` is true; past the deadline Error (timeout).
  FunctionRef<void(std::string const&, FunctionRef<bool()>)> drive;
  // Collective. all(variable, mine): true if `mine` is true on every rank; waits as `drive` does.
  FunctionRef<bool(std::string const&, bool)> all;
  // The session's, lengthened by `note`.
  std::vector<Decision>& decisions;

  // Returns the costs of tables in the space's memory, the session's. Collective, with `calibrate`'s errors, if it measures.
  template <MemorySpace Space>
  Costs const& costs() {
    Costs const& given = Space::host_readable ? options.costs : options.device_costs;
    if (given.measured()) return given;
    Costs& own = Space::host_readable ? measured : measured_on_device;
    if (!own.measured()) own = calibrate<Space>(topology);
    return own;
  }
  // Local, on every rank alike. Notes a decision.
  void note(std::string const& variable, std::string text) { decisions.push_back({step, variable, std::move(text)}); }
};

// The coming places of a table's rows, moved as a step's last act.
template <class P>
struct PlannedMove {
  std::size_t choice;  // number of the policy among the policies to choose from
  P partitioner;
  std::string reason;
};

// Moves the rows, collective, after the commit of a step; or, if a rank has no memory to prepare it, leaves them on all ranks.
// Returns true if they were moved. If all rows are on every rank before and after, only the policy changes. Waits for all ranks
// under the session's deadline: its Error (timeout), and a failed move, end the session.
template <Communicator C, AdaptiveTableState<C> S, class P>
bool move_rows(S& state, PlannedMove<P> const& plan, Adapting<C>& by) {
  if (!state.shards() && !state.choices()[plan.choice].sharded) {  // every rank has all rows already
    state.change_choice(plan.choice);
    by.note(state.name(), plan.reason);
    return true;
  }
  std::optional<typename S::Moved> moved;
  try {
    moved.emplace(state.begin_move(by.topology, plan.choice, plan.partitioner));
  } catch (std::exception const&) {  // of the heap, or an Error of another space; the others are told
  }
  if (!by.all(state.name(), moved.has_value())) {
    by.note(state.name(), plan.reason + "; not done, for want of memory");
    return false;
  }
  {
    RowMove<C, typename S::index_type, typename S::space> exchange{state.ops(), moved->route, moved->arrays};
    by.drive(state.name(), [&] { return exchange.poll(by.lane); });
    state.end_move(std::move(*moved), plan.partitioner.pieces != state.partitioner().pieces);
    moved.reset();
  }
  // A device gives memory back after all work given to it, perhaps work that waits for another rank.
  if constexpr (!S::space::host_readable) static_cast<void>(by.all(state.name(), true));
  by.note(state.name(), plan.reason);
  return true;
}

// Words of the ranks to each other on a table under Auto at the end of a step: its use, and the time of the step while a search
// is on.
template <class S>
struct Adaptation {
  // Returns the number of words `tell` will add, the same on all ranks.
  static std::size_t words(S const& state) { return Chooser::words + static_cast<bool>(state.search); }
  // Returns the number of words added by the last `tell`, even if `conclude` has ended the search since.
  static std::size_t told(S const& state) { return state.told_words; }

  // Appends this rank's words to `words`, local, before the commit, with which they travel: also on a rank that refuses there,
  // as all ranks then begin the time of the next step. `now`: seconds of the session's clock.
  static void tell(S& state, List<double>& words, double now) {
    state.told_words = Adaptation::words(state);
    words.push_back(state.seen.pushed), words.push_back(state.seen.pulled);
    words.push_back(state.seen.merged), words.push_back(state.seen.owned);
    if (state.search) words.push_back(now - std::exchange(state.step_began, now));
  }

  // Concludes, collective, after the commit: once for each variable, by its first update. `words_of(rank)`: the given rank's
  // words on the table. All ranks come to the same conclusion. Waits and throws as `move_rows` and `Adapting::costs` do.
  template <Communicator C>
    requires AdaptiveTableState<S, C>
  static void conclude(S& state, Adapting<C>& by, FunctionRef<double const*(int)> words_of) {
    choose(state, by, words_of);
    if (state.search) go_on(state, by, words_of);
    state.seen = {};
  }

 private:
  using P = std::remove_cvref_t<decltype(std::declval<S&>().partitioner())>;

  // Takes in the step, and goes over to another policy if one is due and worth it. While a search is on the policy stays.
  template <Communicator C>
  static void choose(S& state, Adapting<C>& by, FunctionRef<double const*(int)> words_of) {
    RankShape const shape{by.topology};
    state.chooser.observe(state.choices()[state.choice()], state.facts(), shape, by.topology.size(), words_of);
    if (state.search || by.topology.serves() || !state.chooser.due(by.options)) return;  // servers keep the rows they serve
    AutoOptions options = by.options;
    options.costs = by.template costs<typename S::space>();
    if (auto change = state.chooser.choose(state.choices(), state.choice(), state.facts(), shape, options))
      state.chooser.moved(move_rows(state, PlannedMove<P>{change->to, state.partitioner(), std::move(change->reason)}, by));
  }

  // Tells the search for a number of pieces the step's time on the slowest rank. Once it has tried a number, the table is dealt
  // by the next one; a search that cannot move the rows is given up.
  template <Communicator C>
  static void go_on(S& state, Adapting<C>& by, FunctionRef<double const*(int)> words_of) {
    double seconds = 0;
    for (int rank = 0; rank < by.topology.size(); ++rank) seconds = std::max(seconds, words_of(rank)[Chooser::words]);
    PieceSearch& search = *state.search;
    std::int64_t const before = search.pieces();
    std::size_t const probes = search.probes().size();
    search.add(seconds);
    if (search.probes().size() == probes) return;
    std::string reason = joined({before, " pieces took ", short_text(1e3 * search.probes().back().seconds),
                                 " ms a step; the search ", (search.done() ? "ends with " : "tries "), search.pieces()});
    P partitioner = state.partitioner();
    partitioner.pieces = search.pieces();
    bool const moved = search.pieces() == before;
    if (moved) by.note(state.name(), std::move(reason));
    else if (!move_rows(state, PlannedMove<P>{state.choice(), partitioner, std::move(reason)}, by)) state.search = {};
    if (state.search && search.done()) state.search = {};
  }
};

}  // namespace parallax::detail
