// A session: the ranks that train together, and the collective operations on their variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/session/completion.hpp"
#include "parallax/session/bound_step.hpp"
#include "parallax/session/core.hpp"
#include "parallax/session/describe.hpp"
#include "parallax/session/update.hpp"

namespace parallax {

// Ranks that train together. Everything that communicates is a member function here and is collective: all ranks call the same
// operations, in the same order, on the same variables; only `poll` and the construction of variables are local.
//
// Errors. An operation that one rank refuses (a bad id, a gradient of a wrong size, an exception in a transform, memory) or on
// which ranks differ fails on every rank with the same Error, nothing is changed, and the session goes on. What was started
// is dropped with the step that fails, and where ranks called different operations. The session ends where ranks started
// different numbers of updates, the transport fails, a deadline passes or memory fails in the middle of an exchange: every
// rank gets the error, and later calls throw Error (poisoned). A session that is left by an exception aborts its peers.
//
// Refers to the communicator or copies the topology; the communicator must outlive it. Move-only; variables may be made and
// moved freely. One thread at a time.
template <class C>
class Session {
  static_assert(detail::never<C>, "parallax: a Session is made over a communicator (see comm/communicator.hpp): a type with "
                                  "rank, size, ialltoallv, abort and deadline");

 public:
  explicit Session(C&, SessionOptions = {}) {}
};

template <Communicator C>
class Session<C> {
 public:
  explicit Session(C& world, SessionOptions options = {}) : Session{Topology<C>{world}, options} {}
  explicit Session(Topology<C> topology, SessionOptions options = {})
      : core_{make_owned<Core>(std::move(topology), options)} {}
  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) = delete;

  ~Session() {
    if (core_) core_->leave();
  }

  int rank() const { return core_->topology.rank(); }
  int size() const { return core_->topology.size(); }
  Topology<C> const& topology() const { return core_->topology; }
  SessionOptions& options() { return core_->options; }
  Traffic const& traffic() const { return core_->traffic; }
  std::int64_t steps() const { return core_->steps; }

  // Collective. The rows of the indices of one batch, each distinct row once; with several tables (table.at(ids)…) all share
  // one exchange and a tuple of handles is returned; table.bags(ids, offsets…) pools rows. Errors:
  // bad_id names rank, position and value.
  template <detail::SparseVariable V, class Ids>
  [[nodiscard]] auto pull(V const& variable, Ids const& ids) {
    return std::get<0>(core_->pull(variable.at(ids)));
  }
  template <detail::NamesRows... Indices>
  [[nodiscard]] auto pull(Indices const&... indices) {
    return core_->pull(indices...);
  }
  // Local, and alike on all ranks. Names the batch after this one while this one is worked on. The next `step` takes its ids
  // along, and sends its rows on their way when the updates are applied: `pull` of what this returns finds them there, without
  // a message of its own. Pulled before that step, or after a later one that changed the table, it is like any other pull.
  // What a rank writes into its rows itself after the step is not in them.
  // Takes what `pull` takes, which may be gone once it returns; what is wrong with it is thrown by its `pull`.
  //   auto next = session.prefetch(words, tokens_of_next);
  //   session.step(grad(rows, gradient));
  //   rows = session.pull(std::move(next));
  template <detail::SparseVariable V, class Ids>
  [[nodiscard]] auto prefetch(V const& variable, Ids const& ids) {
    return core_->prefetch(variable.at(ids));
  }
  template <detail::NamesRows... Indices>
  [[nodiscard]] auto prefetch(Indices const&... indices) {
    return core_->prefetch(indices...);
  }
  template <class... Handles>
  [[nodiscard]] auto pull(Prefetched<C, Handles...>&& batch) {
    if constexpr (sizeof...(Handles) == 1) return std::get<0>(core_->pull(std::move(batch)));
    else return core_->pull(std::move(batch));
  }
  template <class... Others>
  detail::Mistaken pull(Others const&...) {
    static_assert(detail::never<std::tuple<Others...>>,
                  "parallax: a pull is of a Sparse variable and indices, or of table.at(ids) and table.bags(ids, offsets)");
    return {};
  }

  // Collective. Begins updates while the backward pass goes on: their agreement is posted now, their exchange as soon as a
  // later `poll`, `start`, `pull` or `step` finds that all ranks agreed. Gradients are copied, so that their memory is free
  // at once. What is wrong with them is thrown by the `step` that completes them.
  template <class... Updates>
  void start(Updates const&... updates) {
    start(Priority{}, updates...);
  }
  template <class... Updates>
  void start(Priority priority, Updates const&... updates) {
    if constexpr (detail::check_updates<Updates...>()) core_->start(priority, updates...);
  }

  // Local. Lets what was started progress; call it between layers. Never throws for a refusal.
  void poll() { core_->poll(); }

  // Collective. Completes what was started, and these updates with it: all ranks agree, exchange, and apply each variable's
  // optimizer once, to the sum of all its updates. An update is grad(…), clip_by_global_norm(max, grad(…)…) or a range of
  // grad(…) of one type. Gradients are read in place until it returns. True when the updates were applied; false, on all ranks,
  // when the step was skipped over a gradient that is not finite (NonFinite::skip_step) or all ranks have joined.
  template <class... Updates>
  bool step(Updates const&... updates) {
    if constexpr (detail::check_updates<Updates...>()) return core_->step(updates...);
    else return false;
  }

  // Collective. A step of dense variables that is checked here once and never again: see BoundStep. `updates`: grad(…) of
  // variables under AllReduce whose optimizer works element by element, without a transform. The communicator sums in the
  // vendor's order. Errors: misuse where it does not, invalid_argument for a gradient of another size or of more than INT_MAX
  // elements.
  template <class... Updates>
  auto bind_step(Updates const&... updates) {
    if constexpr (detail::check_bound<C, Updates...>()) return core_->bind_step(updates...);
    else return detail::Mistaken{};
  }

  // Collective. For ranks that run out of data before others: called after a rank's last batch, it takes part in the others'
  // operations and contributes nothing to them, until all ranks have called it. `body` is the others' iteration with an empty
  // batch: the same pulls, starts and steps in the same order, the pulls and updates by indices without any; dense gradients
  // are not looked at and count as zeros. Means are over all ranks or over those that have data: SessionOptions::join_divisor.
  // The last call of `body` happens when all ranks have joined: its steps change nothing and return false.
  //   for (Batch const& batch : mine) iteration(batch);
  //   session.join([&] { iteration(Batch{}); });
  template <class Body>
  void join(Body&& body) {
    static_assert(std::is_invocable_v<Body&>,
                  "parallax: join is given an iteration with an empty batch: something to call without arguments");
    if constexpr (std::is_invocable_v<Body&>) core_->join(body);
  }

  // Collective. Every rank's replica of these variables becomes that of rank 0 (variables whose policy replicates).
  template <class... Variables>
  void broadcast(Variables const&... variables) {
    static_assert((true && ... && detail::AnyVariable<Variables>), "parallax: broadcast is given variables");
    if constexpr ((true && ... && detail::AnyVariable<Variables>)) (core_->broadcast(variables), ...);
  }

  // Collective. Searches, while training goes on, the number of pieces under which steps take least time: see PieceSearch. The
  // next steps that update `variable`, one under Auto, are timed, and after some of them its rows are dealt anew. Returns at
  // once; `decisions()` tells how it went. Meanwhile the method stays; where every rank holds all rows nothing is searched.
  template <class V>
  void search_pieces(V const& variable, SearchOptions const& search = {}) {
    constexpr bool right = requires { requires V::State::adaptive; };
    static_assert(right, "parallax: pieces are searched for a variable under Auto: Variable<Sparse, Auto>");
    if constexpr (right) core_->search_pieces(variable, search);
  }

  // Local. How variables under Auto were moved, and why: the same on all ranks.
  std::vector<Decision> const& decisions() const { return core_->decisions; }
  // Local. The model of the machine for variables in the space's memory: as the options have it, or as it was measured for
  // variables under Auto.
  template <MemorySpace Space = HostSpace>
  Costs costs() const {
    return core_->costs_of(!Space::host_readable);
  }
  // Local. A line per variable: policy, owners, pieces, the fraction of rows that a host touches in a step, and what the step
  // is expected to send from this rank to other hosts (MB, 10^6 bytes) and to take, where costs are known: agreements apart.
  std::string describe() const {
    return detail::described(core_->topology, core_->registry, core_->costs_of(false), core_->costs_of(true));
  }

  // Collective. The normal end: every rank has completed every step, and says so. A rank that leaves without it has failed, and
  // no rank gets a Completion.
  Completion finish() { return core_->finish(); }

  // For a Trace. Local.
  void record(TraceRoom* room) { core_->journal->record(room); }
  // For a ProgressThread. Local.
  void take_turns(bool on) { core_->take_turns(on); }
  void help() noexcept { core_->help(); }
  // For variables: makes this one known. Local.
  void enter(RegistrationPtr registration) { core_->enter(std::move(registration)); }

 private:
  struct Core : detail::SessionCore<C> {
    using Base = detail::SessionCore<C>;
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
        ahead.add(Shared<detail::FetchBase<C>>{fetch.get()});
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
          detail::FetchBase<C>& fetch;
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
      using type = detail::Fetch<C, typename HandleOf<Indices>::type...>;
    };
    using FetchStage = typename detail::FetchBase<C>::Stage;
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
        auto& flight = this->template take_flight<detail::Flight<C, Updates...>>({rows, rows, rows + 1});
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
        using Pack = detail::Flight<C, Updates...>;
        this->await_rows("step");
        auto& pack = this->template take_flight<Pack>({Base::control, Base::step_rows, Base::step_dense});
        pack.bring(ahead);
        struct Closing {  // whatever happens, the updates give back what they hold
          detail::Started<C>& started;
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
        }, detail::WholeStep<C>{started, pack});
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
        drive("step", [&] { return started.found() && pack.found(); }, detail::WholeStep<C>{started, pack});
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
          (detail::check_binding(topology, updates), ...);
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
      detail::Named<Lane<C>> const awaited{dense, names};
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

  Owned<Core> core_;
};

template <class C>
Session(C&) -> Session<C>;
template <class C>
Session(C&, SessionOptions) -> Session<C>;
template <Communicator C>
Session(Topology<C>) -> Session<C>;
template <Communicator C>
Session(Topology<C>, SessionOptions) -> Session<C>;

}  // namespace parallax
