// The operations of a session, as all ranks carry them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/session/bound_step.hpp"
#include "parallax/session/completion.hpp"
#include "parallax/session/core.hpp"
#include "parallax/session/flight.hpp"
#include "parallax/session/update.hpp"

namespace parallax::detail {

// The member functions are Session's, which checks at compile time what they are given.
template <Communicator C>
class SessionOperations : public SessionCore<C> {
  using Base = SessionCore<C>;

 public:
  using Base::Base, Base::topology, Base::traffic, Base::options, Base::agreement, Base::dense, Base::mail, Base::started,
      Base::ahead, Base::norms, Base::current, Base::guarded, Base::context, Base::agree, Base::drive;

  // ---- pull ----------------------------------------------------------------------------------------------------------

  template <class... Indices>
  auto pull(Indices const&... indices) {
    return guarded("pull", [&] {
      this->await_rows("pull");
      typename FetchOf<Indices...>::type fetch;
      plan(fetch, indices...);
      this->fetch(fetch);
      fetch.read_replicas();
      fetch.finish();
      return fetch.take();
    });
  }
  template <class... Indices>
  auto prefetch(Indices const&... indices) {
    return guarded("prefetch", [&] {
      Shared<typename FetchOf<Indices...>::type> fetch;
      this->take_fetch(fetch);
      plan(*fetch, indices...);
      ahead.add(Shared<FetchBase<C>>{fetch.get()});
      return Prefetched{std::move(fetch)};
    });
  }
  template <class... Handles>
  auto pull(Prefetched<C, Handles...>&& batch) {
    return guarded("pull", [&] {
      auto const fetch = batch.release();
      if (!fetch || !ahead.has(*fetch))
        throw typename Base::Refused{
            {Errc::misuse, topology.rank(), "pull", "", "this batch was pulled before, or named to another session"}};
      struct Clearing {  // also after a refusal, a fetch of the pool keeps no variable alive
        FetchBase<C>& fetch;
        ~Clearing() { fetch.clear(); }
      } const clearing{*fetch};
      this->await_rows("pull");
      bool const here = fetch->stage == FetchStage::here && fetch->current();
      ahead.remove(*fetch);
      if (!here) {
        if (!fetch->error) fetch->plan_again(topology);
        this->fetch(*fetch);
      }
      fetch->read_replicas();
      fetch->finish();
      return fetch->take();
    });
  }
  template <class Indices>
  struct HandleOf {
    using type = PulledRows<typename Indices::state_type>;
  };
  template <class S, class Id, class Offset>
  struct HandleOf<BagsOf<S, Id, Offset>> {
    using type = PulledBags<S>;
  };
  template <class... Indices>
  struct FetchOf {
    using type = Fetch<C, typename HandleOf<Indices>::type...>;
  };
  using FetchStage = typename FetchBase<C>::Stage;
  template <class... Indices>
  void plan(typename FetchOf<Indices...>::type& fetch, Indices const&... indices) {
    fetch.plan(topology, [&](auto const& state) { this->check_owned(state, "pull"); }, current, indices...);
  }

  // ---- start, step -----------------------------------------------------------------------------------------------------

  template <class... Updates>
  void start(Priority priority, Updates const&... updates) {
    guarded("start", [&] {
      if (auto* const earlier = started.before_next())  // its channels are free once it has arrived
        drive("start", [&] { return earlier->poll(); }, *earlier);
      int const rows = static_cast<int>(Base::first_flight + 2 * (started.size() % Base::most_flights));
      auto& flight = this->template take_flight<Flight<C, Updates...>>({rows, rows, rows + 1});
      flight.prepare(true, updates...);
      flight.set_priority(priority);
      started.add(flight);
      flight.post(context(Operation::start).value());
      this->journal->name(flight.first_name());
      started.poll();
    });
  }

  void poll() {
    guarded("poll", [&] { this->progress(); });
  }

  template <class... Updates>
  bool step(Updates const&... updates) {
    return guarded("step", [&] {
      using Pack = Flight<C, Updates...>;
      this->await_rows("step");
      auto& pack = this->template take_flight<Pack>({Base::control, Base::step_rows, Base::step_dense});
      pack.bring(ahead);
      struct Closing {  // whatever happens, the updates give back what they hold
        Started<C>& started;
        Pack& pack;
        ~Closing() {
          started.close();
          pack.close();
        }
      } const closing{started, pack};
      pack.prepare(false, updates...);
      Fingerprint hash = context(Operation::step);
      for (auto* flight : started) {
        hash.add(flight->hash());
        if (auto const* name = flight->gone())
          pack.refuse({Errc::misuse, topology.rank(), "step", *name, "the variable was destroyed with an update in flight"});
      }
      hash.add(ahead.hash());
      this->journal->name(pack.first_name());
      pack.post(hash.value());
      this->advance(Phase::agreeing);
      bool agreeing = true;
      drive("step", [&] {
        bool const arrived = started.poll(), complete = pack.poll();
        if (agreeing && !pack.agreeing()) {
          agreeing = false;
          this->advance(Phase::exchanging);
        }
        return complete && (arrived || !pack.unanimous());
      }, WholeStep<C>{started, pack});
      this->refuse_unless_unanimous(pack);
      this->all_joined = pack.idle();
      bool const applied = !(pack.idle() && started.idle()) && complete(pack);
      ahead.release(this->mail);
      this->steps += applied;
      return applied;
    });
  }

  // Everything arrived; from here on no rank may stop before the commit.
  template <class Pack>
  bool complete(Pack& pack) {
    std::optional<Error> error, found;
    bool const finite = options.non_finite != NonFinite::propagate;
    std::size_t const groups_started = started.groups(), groups = groups_started + pack.limits().size();
    norms.assign(groups, 0.0);
    try {
      started.reduce();
      pack.reduce(static_cast<int>(groups_started));
      started.merge();
      pack.merge();
      started.transform();
      pack.transform();
      started.seek(finite);
      pack.seek(finite);
    } catch (...) {
      error = current_error(topology.rank(), "step", current);
    }
    if (!error) {
      drive("step", [&] { return started.found() && pack.found(); }, WholeStep<C>{started, pack});
      started.norms(norms.data());
      pack.norms(norms.data() + groups_started);
    }
    if (!error && finite) {
      auto non_finite = started.non_finite();
      if (!non_finite) non_finite = pack.non_finite();
      if (non_finite) (non_finite->in_gradient ? error : found) = std::move(non_finite->error);
    }
    if (!this->commit(pack, error, groups, found)) return false;
    this->advance(Phase::applying);
    this->scales_from_norms(pack);
    this->gather_gradients(pack);
    started.measure(norms.data());
    pack.measure(norms.data() + groups_started);
    this->gather_measures(pack);
    started.apply(norms.data());
    pack.apply(norms.data() + groups_started);
    this->gather_parameters(pack);
    this->adapt(pack, groups);
    return true;
  }

  template <class Body>
  void join(Body& body) {
    struct Joined {
      bool& flag;
      ~Joined() { flag = false; }
    } const leaving{this->joined};
    this->joined = true;
    do {
      std::uint64_t const before = this->operations;
      this->all_joined = false;
      body();
      if (this->operations == before)
        throw Error{Errc::misuse, topology.rank(), "join", "", "the body given to join called no operation of the session"};
    } while (!this->all_joined);
  }

  template <class... Updates>
  auto bind_step(Updates const&... updates) {
    return guarded("bind_step", [&] {
      auto const names = [&] {
        std::string list;
        ((list += (list.empty() ? "" : ", ") + updates.state->name()), ...);
        return list;
      };
      Fingerprint hash = context(Operation::bind_step);
      (updates.state->add_update(hash), ...);
      std::optional<Error> error;
      try {
        (check_binding(topology, updates), ...);
        (this->check_owned(*updates.state, "bind_step"), ...);
      } catch (...) {
        error = current_error(topology.rank(), "bind_step", current);
      }
      agreement.begin(hash.value(), !error, this->joined, 0);
      agree("bind_step", error, names,
            [&] { return ((updates.state->name() + "\t" + updates.state->update_text() + '\n') + ...); });
      return BoundStep<C, Updates...>{topology.world(), updates...};
    });
  }

  template <class V>
  void search_pieces(V const& variable, SearchOptions const& search) {
    guarded("search_pieces", [&] {
      auto& state = variable.state();
      Fingerprint hash = context(Operation::search_pieces);
      state.add_update(hash);
      hash.add(fields_hash(search));
      std::optional<Error> error;
      try {
        this->check_owned(state, "search_pieces");
      } catch (...) {
        error = current_error(topology.rank(), "search_pieces", variable.name());
      }
      agreement.begin(hash.value(), !error, this->joined, 0);
      agree("search_pieces", error, [&] { return variable.name(); },
            [&] { return variable.name() + "\t" + state.update_text() + ", search " + fields_text(search) + '\n'; });
      if (!state.shards()) {
        this->decisions.push_back({this->steps, state.name(), "no search: every rank holds the whole table"});
        return;
      }
      std::int64_t const pieces = state.partitioner().pieces;
      state.search.emplace(pieces > 0 ? pieces : topology.owners(), search);
      state.step_began = std::chrono::duration<double>{now(topology.world())}.count();
    });
  }

  // ---- broadcast, finish -----------------------------------------------------------------------------------------------

  template <class V>
  void broadcast(V const& variable) {
    static_assert(std::same_as<typename V::kind, Dense> || !V::State::sharded,
                  "parallax: a sharded variable has one copy of every row; there is nothing to broadcast");
    using T = typename V::scalar_type;
    guarded("broadcast", [&] {
      Fingerprint hash = context(Operation::broadcast);
      hash.add(variable.state().registration()->hash);
      std::optional<Error> error;
      try {
        this->check_owned(variable.state(), "broadcast");
      } catch (...) {
        error = current_error(topology.rank(), "broadcast", variable.name());
      }
      agreement.begin(hash.value(), !error, this->joined, 0);
      agree("broadcast", error, [&] { return variable.name(); },
            [&] { return variable.name() + "\t" + variable.state().registration()->signature + '\n'; });
      std::span<T> values;
      using Space = typename V::State::space;
      if constexpr (std::same_as<typename V::kind, Dense>) {
        values = variable.values();
      } else {
        auto const table = variable.state().local();
        values = {table.data, static_cast<std::size_t>(table.rows * table.width)};
      }
      broadcast_values<Space>(values, variable.name());
    });
  }

  // Rank 0 deals the parts, then all gather them: 2 w (N - 1) / N bytes at the busiest rank instead of w (N - 1).
  template <MemorySpace Space, class T>
  void broadcast_values(std::span<T> values, std::string const& name) {
    int const owners = topology.owners();
    begins.clear();
    for (int owner = 0; owner <= owners; ++owner) begins.push_back(part_begin(values.size(), owner, owners));
    dense.clear();
    auto const part_of = [&](int owner, auto&& declare) {
      auto const o = static_cast<std::size_t>(owner);
      declare(begins[o] * sizeof(T), (begins[o + 1] - begins[o]) * sizeof(T));
    };
    for (int owner = 0; owner < owners; ++owner) {
      if (topology.rank() == 0 && topology.owner_rank(owner) != 0)
        part_of(owner, [&](std::size_t at, std::size_t bytes) {
          dense.send(topology.owner_rank(owner), at, bytes, Payload::dense);
        });
      if (topology.rank() != 0 && topology.owner_rank(owner) == topology.rank())
        part_of(owner, [&](std::size_t at, std::size_t bytes) { dense.expect(0, at, bytes, Payload::dense); });
    }
    auto const names = [&] { return name; };
    Named<Lane<C>> const awaited{dense, names};
    dense.template post<Space>(values.data(), values.data());
    drive("broadcast", [&] { return dense.test(); }, awaited);
    Allgather<T, C, Space> gather;
    gather.start(values.data(), begins);
    drive("broadcast", [&] { return gather.poll(dense); }, awaited);
  }

  Completion finish() {
    return guarded("finish", [&] {
      this->await_rows("finish");
      std::optional<Error> error;
      if (!started.empty())
        error = Error{Errc::misuse, topology.rank(), "finish", (*started.begin())->names(),
                      "updates were started and no step completed them"};
      agreement.begin(context(Operation::finish).value(), !error, this->joined, 0);
      agree("finish", error, [] { return std::string{}; }, [] { return std::string{}; });
      this->words_out.assign({static_cast<double>(this->steps), static_cast<double>(this->operations),
                              static_cast<double>(traffic.payload_sent()), static_cast<double>(traffic.payload_received())});
      this->tell_all("finish", [] { return std::string{}; });
      Completion completion{topology.rank(), {}};
      for (int rank = 0; rank < topology.size(); ++rank) {
        auto const words = this->words_of(rank);
        completion.records.push_back({static_cast<std::int64_t>(words[0]), static_cast<std::uint64_t>(words[1]),
                                      static_cast<std::uint64_t>(words[2]), static_cast<std::uint64_t>(words[3])});
      }
      this->finished = true;
      return completion;
    });
  }

  std::vector<std::size_t> begins;  // of the owners' parts in a broadcast
};

}  // namespace parallax::detail
