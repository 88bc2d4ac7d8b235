// `Session::search_pieces`: begins the search for the number of pieces with the shortest steps. The session calls it, and steps
// go on with the search as their last act.
#pragma once

#include <cstdint>

#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// Collective. Agrees on the variable and the options of the search, then leaves it to the steps: the variable's state owns the
// search. A table held whole by every rank is not searched: a decision says so. Throws Error: mismatch, misuse.
template <Communicator C, class V>
void search_pieces(SessionCore<C>& core, V const& variable, SearchOptions const& search) {
  core.waiting.guarded("search_pieces", [&] {
    auto& state = variable.state();
    Fingerprint more;
    state.add_update(more);
    more.add(fields_hash(search));
    core.agree_on(state, Operation::search_pieces, state.update_text() + ", search " + fields_text(search), more.value(),
                  [] {});
    if (!state.shards()) {
      core.decisions.push_back({core.steps, state.name(), "no search: every rank holds the whole table"});
      return;
    }
    std::int64_t const pieces = state.partitioner().pieces;
    state.search = make_owned<PieceSearch>(pieces > 0 ? pieces : core.topology.owners(), search);
    state.step_began = core.waiting.seconds();
  });
}

}  // namespace parallax::detail
