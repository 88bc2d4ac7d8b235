// `Session::pull` and `Session::prefetch`: rows of batches, fetched at once or brought by the next step. The session calls
// `pull` and `prefetch`, and unpacks their results.
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/detail/policy/journey/lent.hpp"
#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// Handle of a pull of such indices: rows of plain ones, pooled rows of bags.
template <class Indices>
struct HandleOf {
  using type = PulledRows<typename Indices::state_type>;
};
template <class S, class Id, class Offset>
struct HandleOf<BagsOf<S, Id, Offset>> {
  using type = PulledBags<S>;
};
// Handles of a list of indices of one type, each of a table: a list.
template <class Indices>
struct HandleOf<std::vector<Indices>> {
  using type = std::vector<typename HandleOf<Indices>::type>;
};
// Fetch of a pull by these indices: `pull` makes one, `prefetch` takes one of the pool.
template <Communicator C, class... Indices>
using FetchOf = Fetch<C, typename HandleOf<Indices>::type...>;

// Returns several handles as a tuple, those of a list as a list; one as itself.
template <class... Handles>
auto unpacked(std::tuple<Handles...> handles) {
  if constexpr (sizeof...(Handles) == 1) return std::get<0>(std::move(handles));
  else return handles;
}
template <class Handle>
auto unpacked(std::vector<Handle> handles) {
  return handles;
}

// Local. Plans the batches. The fetch keeps an error of the indices, or of a variable of another session, for the agreement.
template <Communicator C, class... Indices>
void plan(SessionCore<C>& core, FetchOf<C, Indices...>& fetch, Indices const&... indices) {
  fetch.plan(
      core.topology, [&](auto const& state) { core.check_owned(state, "pull"); }, core.waiting.current, indices...);
}

// Collective, after the agreement. Reads memory at the addresses in the agreement: owners read keys, and pulling ranks read
// rows. If owners change rows in between, all wait for the change. Waits, as `Waiting::drive`, until all ranks have read.
template <Communicator C>
void read_in_place(SessionCore<C>& core, FetchBase<C>& fetch, FunctionRef<std::string()> names) {
  C& world = core.topology.world();
  bool changed = false;  // rows, by the keys just taken
  do {
    {
      Reading<C> const reading{world};
      changed = fetch.take_lent(changed);
    }
    world.take_turn();
    if (!changed) fetch.end_lent(core.mail.lane());
    core.await_turns("pull", names);
  } while (changed);
}

// Collective. Carries a planned pull out, and waits for its rows: one agreement, with the lengths of the runs, then ids and
// rows leg by leg, or read in place. Throws Refused for a refusal of any rank on all, before anything travels.
template <Communicator C>
void carry_out(SessionCore<C>& core, FetchBase<C>& fetch) {
  auto const names = [&] { return fetch.names(); };
  auto& agreement = core.rounds.agreement;
  Fingerprint hash = core.begin(Operation::pull, fetch.first_name());
  hash.add(fetch.hash());
  bool lends = false;
  auto const failure = core.attempt("pull", [&] {
    agreement.reserve(fetch.counts());
    lends = fetch.lend(core.topology);
  });
  if (!fetch.error) fetch.error = failure;
  agreement.begin(hash.value(), !fetch.error, core.joined, fetch.counts());
  fetch.tell([&](int rank, std::size_t which, std::uint64_t number) { agreement.tell(rank, which, number); });
  core.rounds.agree("pull", fetch.error, names, [&] { return fetch.describe(); });
  fetch.hear([&](int rank, std::size_t which) { return agreement.told(rank, which); });
  fetch.begin(core.topology, false);
  if (lends) return read_in_place(core, fetch, names);
  Traveller<C>* const traveller = &fetch;
  core.waiting.drive("pull", [&] { return carry<C>(core.mail, {&traveller, 1}); }, {core.mail, names});
}

// Collective. Pulls, for `Session::pull`, by indices of one or of several tables, and waits for the rows. Returns the handles,
// which hold the plans: a tuple, or for a list a list. Throws the errors of `Session::pull`.
template <Communicator C, class... Indices>
auto pull(SessionCore<C>& core, Indices const&... indices) {
  return core.waiting.guarded("pull", [&] {
    core.await_rows("pull");
    FetchOf<C, Indices...> fetch;
    plan(core, fetch, indices...);
    carry_out(core, fetch);
    fetch.finish();
    return fetch.take();
  });
}

// Local. Names and returns a batch ahead, for `Session::prefetch`. An error of the indices is kept in the fetch, for its pull.
// The pool owns the fetch, which is among those named ahead until its pull.
template <Communicator C, class... Indices>
auto prefetch(SessionCore<C>& core, Indices const&... indices) {
  return core.waiting.guarded("prefetch", [&] {
    auto fetch = core.pools.template fetch<FetchOf<C, Indices...>>();
    plan(core, *fetch, indices...);
    core.ahead.add(Shared<FetchBase<C>>{fetch.get()});
    return BasicPrefetched{std::move(fetch)};
  });
}

// Collective. Pulls, for `Session::pull`, a batch named ahead. Waits for rows on their way; if no table has changed since they
// began to travel, returns them as the pull of the indices would, else fetches all now. All ranks decide alike, by the steps.
// Throws the errors of such a pull, and misuse for a batch pulled before or of another session.
template <Communicator C, class... Handles>
auto pull(SessionCore<C>& core, BasicPrefetched<C, Handles...>&& batch) {
  return core.waiting.guarded("pull", [&] {
    auto const fetch = batch.release();
    if (!fetch || !core.ahead.has(*fetch)) {
      core.await_rows("pull");
      core.refuse(Operation::pull, "pull", "this batch was pulled before, or named to another session");
    }
    struct Clearing {  // also after a refusal, a fetch of the pool keeps no variable alive
      FetchBase<C>& fetch;
      ~Clearing() { fetch.clear(); }
    } const clearing{*fetch};
    core.await_rows("pull");
    bool const here = fetch->stage == FetchBase<C>::Stage::here && fetch->current();
    core.ahead.remove(*fetch);
    if (!here) {
      if (!fetch->error) fetch->plan_again(core.topology);
      carry_out<C>(core, *fetch);
    }
    fetch->finish();
    return fetch->take();
  });
}

}  // namespace parallax::detail
