// `Session::pull` and `Session::prefetch`: rows of batches, fetched at once or brought by the next step. The session calls
// `pull` and `prefetch`, and unpacks what they return.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/detail/policy/journey/lent.hpp"
#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// The handle that a pull of such indices returns: rows of plain ones, pooled rows of bags.
template <class Indices>
struct HandleOf {
  using type = PulledRows<typename Indices::state_type>;
};
template <class S, class Id, class Offset>
struct HandleOf<BagsOf<S, Id, Offset>> {
  using type = PulledBags<S>;
};
// A list of indices of one type, each of a table: a list of handles.
template <class Indices>
struct HandleOf<std::vector<Indices>> {
  using type = std::vector<typename HandleOf<Indices>::type>;
};
// The fetch of a pull by these indices: `pull` makes one, `prefetch` takes one of the pool.
template <Communicator C, class... Indices>
using FetchOf = Fetch<C, typename HandleOf<Indices>::type...>;

// Several handles are a tuple, those of a list a list; one is itself.
template <class... Handles>
auto unpacked(std::tuple<Handles...> handles) {
  if constexpr (sizeof...(Handles) == 1) return std::get<0>(std::move(handles));
  else return handles;
}
template <class Handle>
auto unpacked(std::vector<Handle> handles) {
  return handles;
}

// Local. What is wrong with the indices is kept for the agreement.
template <Communicator C, class... Indices>
void plan(SessionCore<C>& core, FetchOf<C, Indices...>& fetch, Indices const&... indices) {
  fetch.plan(
      core.topology, [&](auto const& state) { core.check_owned(state, "pull"); }, core.waiting.current, indices...);
}

// Collective, after the agreement. What ranks have told each other the place of is read there: keys by owners, and rows by those
// who asked. Where owners change rows in between, all wait for that. Over once all ranks have read.
template <Communicator C>
void read_in_place(SessionCore<C>& core, FetchBase<C>& fetch, FunctionRef<std::string()> names) {
  C& world = core.topology.world();
  bool changed = false;  // rows, by the keys that were just taken
  do {
    {
      Reading<C> const reading{world};
      changed = !changed && fetch.take_keys();
      if (!changed) fetch.take_rows();
    }
    world.take_turn();
    if (!changed) fetch.end_lent(core.mail.lane());
    core.await_turns("pull", names);
  } while (changed);
}

// Collective. All of a pull that has been planned: one agreement, in which the lengths of the runs ride, then ids and rows leg
// by leg, or read in place. A refusal of any rank is thrown on all, before anything travels.
template <Communicator C>
void carry_out(SessionCore<C>& core, FetchBase<C>& fetch) {
  auto const names = [&] { return fetch.names(); };
  auto& agreement = core.rounds.agreement;
  Fingerprint hash = core.begin(Operation::pull, fetch.first_name());
  hash.add(fetch.hash());
  bool lends = false;
  try {
    agreement.reserve(fetch.counts());
    lends = fetch.lend(core.topology);
  } catch (...) {
    if (!fetch.error) fetch.error = current_error(core.topology.rank(), "pull", core.waiting.current);
  }
  agreement.begin(hash.value(), !fetch.error, core.joined, fetch.counts());
  fetch.tell([&](int rank, std::size_t which, std::uint64_t number) { agreement.tell(rank, which, number); });
  core.rounds.agree("pull", fetch.error, names, [&] { return fetch.describe(); });
  fetch.hear([&](int rank, std::size_t which) { return agreement.told(rank, which); });
  fetch.begin(core.topology, false);
  if (lends) return read_in_place(core, fetch, names);
  Traveller<C>* const traveller = &fetch;
  core.waiting.drive("pull", [&] { return carry<C>(core.mail, {&traveller, 1}); }, {core.mail, names});
}

// Collective. Called by `Session::pull`, with what names rows of one or of several tables. The fetch lives for this call; the
// plans that it took from the tables go along with the handles.
template <Communicator C, class... Indices>
auto pull(SessionCore<C>& core, Indices const&... indices) {
  return core.waiting.guarded("pull", [&] {
    core.await_rows("pull");
    FetchOf<C, Indices...> fetch;
    plan(core, fetch, indices...);
    carry_out(core, fetch);
    fetch.read_replicas();
    fetch.finish();
    return fetch.take();
  });
}

// Local. Called by `Session::prefetch`. What is wrong with the indices is kept in the fetch, for the pull of it. The fetch is
// the pool's, and waits among those that were named ahead for the next step.
template <Communicator C, class... Indices>
auto prefetch(SessionCore<C>& core, Indices const&... indices) {
  return core.waiting.guarded("prefetch", [&] {
    auto fetch = core.pools.template fetch<FetchOf<C, Indices...>>();
    plan(core, *fetch, indices...);
    core.ahead.add(Shared<FetchBase<C>>{fetch.get()});
    return BasicPrefetched{std::move(fetch)};
  });
}

// Collective. Called by `Session::pull` of a batch that was named ahead. Its rows are handed out where they are here and no
// table of it has changed since they began to travel; else it is planned and carried out now. All ranks see the same of these,
// for stages and changes go by the steps.
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
    fetch->read_replicas();
    fetch->finish();
    return fetch->take();
  });
}

}  // namespace parallax::detail
