// A session: the ranks that train together, and the collective operations on their variables.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "parallax/session/agreement.hpp"
#include "parallax/session/flight.hpp"
#include "parallax/session/update.hpp"

namespace parallax {

struct SessionOptions {
  FusionOptions fusion = {};
};

// Ranks that train together. Everything that communicates is a member function here and is collective: all ranks call the same
// operations, in the same order, on the same variables, with `poll` and the construction of variables excepted, which are local.
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
      : core_{std::make_unique<Core>(std::move(topology), options)} {}
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
  // one exchange and a tuple of handles is returned. Errors: bad_id names rank, position and value.
  template <detail::SparseVariable V, class Ids>
  [[nodiscard]] auto pull(V const& variable, Ids const& ids) {
    return std::get<0>(core_->pull(variable.at(ids)));
  }
  template <class... IndicesOf>
    requires(requires { typename IndicesOf::state_type; } && ...)
  [[nodiscard]] auto pull(IndicesOf const&... indices) {
    return core_->pull(indices...);
  }

  // Collective. Begins updates while the backward pass goes on: their agreement is posted now, their exchange as soon as a
  // later `poll`, `start`, `pull` or `step` finds that all ranks agreed. Gradients are copied, so that their memory is free
  // at once. What is wrong with them is thrown by the `step` that completes them.
  template <class... Updates>
  void start(Updates const&... updates) {
    if constexpr (detail::check_updates<Updates...>()) core_->start(updates...);
  }

  // Local. Lets what was started progress; call it between layers. Never throws for a refusal.
  void poll() { core_->poll(); }

  // Collective. Completes what was started, and these updates with it: all ranks agree, exchange, and apply each variable's
  // optimizer once, to the sum of all its updates. An update is grad(…), clip_by_global_norm(max, grad(…)…) or a range of
  // grad(…) of one type. Gradients are read in place until it returns.
  template <class... Updates>
  void step(Updates const&... updates) {
    if constexpr (detail::check_updates<Updates...>()) core_->step(updates...);
  }

  // Collective. Every rank's replica of these variables becomes that of rank 0 (variables whose policy replicates).
  template <class... Variables>
  void broadcast(Variables const&... variables) {
    (core_->broadcast(variables), ...);
  }

  // Collective. The normal end: every rank has completed every step. A rank that leaves without it has failed.
  void finish() { core_->finish(); }

  // For variables: makes this one known. Local.
  void enter(RegistrationPtr registration) { core_->enter(std::move(registration)); }

 private:
  enum Channel : int { control = 0, step_rows = 1, step_dense = 2, pull_rows = 3, first_flight = 4 };
  static constexpr std::size_t most_flights = (collectives_channel - first_flight) / 2;
  enum class Operation : std::uint64_t { pull = 1, start, step, broadcast, finish };

  // Thrown inside for what all ranks agreed to refuse: the session stays usable.
  struct Refused {
    Error error;
  };

  struct Core {
    Core(Topology<C> given, SessionOptions const& given_options)
        : topology{std::move(given)},
          options{given_options},
          agreement{topology, control, traffic},
          control_lane{topology, control, traffic},
          dense{topology, step_dense, traffic},
          mail{topology, pull_rows, traffic} {
      Fingerprint hash;
      for (int const host : topology.hosts()) hash.add(static_cast<std::uint64_t>(host));
      hash.add(static_cast<std::uint64_t>(topology.hops().size()));
      registry_hash = hash.value();
    }

    // ---- pull ----------------------------------------------------------------------------------------------------------

    template <class... IndicesOf>
    auto pull(IndicesOf const&... indices) {
      return guarded("pull", [&] {
        std::optional<Error> error;
        Fingerprint hash = context(Operation::pull);
        (hash.add(indices.state->registration()->hash()), ...);
        std::tuple<PulledRows<typename IndicesOf::state_type>...> handles;
        auto const plans = [&](auto&& f) { std::apply([&](auto&... handle) { (f(*handle.plan()), ...); }, handles); };
        std::string_view current;
        try {
          std::apply([&](auto&... handle) {
            ((current = indices.state->name(), check_owned(*indices.state, "pull"),
              handle = {*indices.state, indices.state->take_plan()},
              detail::make_plan(topology, *indices.state, *handle.plan(), indices.ids, "pull")), ...);
          }, handles);
          agreement.reserve(sizeof...(IndicesOf));
        } catch (...) {
          error = current_error(topology.rank(), "pull", current);
        }
        auto const names = [&] {
          std::string list;
          ((list += (list.empty() ? "" : ", ") + indices.state->name()), ...);
          return list;
        };
        agreement.begin(hash.value(), !error, sizeof...(IndicesOf));
        std::size_t which = 0;
        if (!error) plans([&](auto& plan) {
          detail::tell_plan(plan, [&](int rank, std::size_t count) { agreement.tell(rank, which, count); });
          ++which;
        });
        agree("pull", error, names,
              [&] { return ((indices.state->name() + "\t" + indices.state->registration()->signature + '\n') + ...); });
        which = 0;
        plans([&](auto& plan) {
          detail::hear_plan(plan, [&](int rank) { return static_cast<std::size_t>(agreement.told(rank, which)); });
          ++which;
        });
        fetch(handles, names);
        return handles;
      });
    }

    // Sharded tables by one journey together, replicated ones from this rank's own rows.
    template <class... States, class Names>
    void fetch(std::tuple<PulledRows<States>...>& handles, Names const& names) {
      auto journeys = std::tuple{PullJourney<C, typename States::index_type, typename States::scalar_type, States>{}...};
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (begin_fetch(std::get<I>(handles).state(), *std::get<I>(handles).plan(), std::get<I>(journeys)), ...);
      }(std::index_sequence_for<States...>{});
      auto const all = [&](auto&& f) { std::apply([&](auto&... journey) { (f(journey), ...); }, journeys); };
      drive("pull", [&] { return carry(mail, all); }, [&] { return mail.lane().waiting_for(); }, names);
    }
    template <class State, class Plan, class Journey>
    void begin_fetch(State& state, Plan& plan, Journey& journey) {
      using T = typename State::scalar_type;
      if constexpr (State::sharded) {
        journey.start(plan, state, state.placement().bases(), state.rows(), state.width(), topology.owner());
      } else {
        plan.values.resize_with_slack(plan.size() * static_cast<std::size_t>(state.width()) * sizeof(T));
        auto const rows = state.rows_of(plan.levels[0].keys.span());
        state.touch(rows, 0);
        state.gather(rows, 0, reinterpret_cast<T*>(plan.values.data()));
      }
    }

    // ---- start, step -----------------------------------------------------------------------------------------------------

    template <class... Updates>
    void start(Updates const&... updates) {
      guarded("start", [&] {
        if (flights.size() >= most_flights) {  // the channels are those of an earlier one, which must have arrived
          auto* const earlier = flights[flights.size() - most_flights];
          drive("start", [&] { return earlier->poll(); }, [&] { return earlier->waiting_for(); }, [&] { return earlier->names(); });
        }
        int const rows = static_cast<int>(first_flight + 2 * (flights.size() % most_flights));
        auto& flight = take_flight<Updates...>({rows, rows, rows + 1});
        flight.prepare(true, updates...);
        flights.push_back(&flight);
        flight.post(context(Operation::start).value());
        poll_flights();
        return 0;
      });
    }

    void poll() {
      guarded("poll", [&] {
        poll_flights();
        return 0;
      });
    }

    template <class... Updates>
    void step(Updates const&... updates) {
      guarded("step", [&] {
        auto& pack = take_flight<Updates...>({control, step_rows, step_dense});
        struct Closing {  // whatever happens, the updates give back what they hold
          Core* core;
          detail::FlightBase<C>* pack;
          ~Closing() {
            core->close_flights();
            pack->close();
          }
        } const closing{this, &pack};
        pack.prepare(false, updates...);
        Fingerprint hash = context(Operation::step);
        for (auto* flight : flights) {
          hash.add(flight->hash());
          if (auto const* name = flight->gone())
            pack.refuse({Errc::misuse, topology.rank(), "step", *name, "the variable was destroyed with an update in flight"});
        }
        pack.post(hash.value());
        auto const missing = [&] { return missing_rank(pack); };
        auto const names = [&] { return names_of(pack); };
        drive("step", [&] {
          bool const arrived = poll_flights();
          return pack.poll() && (arrived || !pack.unanimous());
        }, missing, names);
        refuse_unless_unanimous(pack);
        complete(pack);
        ++steps;
        return 0;
      });
    }

    // Everything arrived; from here on no rank may stop before the commit.
    template <class Pack>
    void complete(Pack& pack) {
      std::optional<Error> error;
      std::size_t groups = 0, at = 0;
      each_flight(pack, [&](auto& flight) { groups += flight.limits().size(); });
      detail::FlightBase<C>* at_work = &pack;
      auto const each = [&](auto&& phase) {
        each_flight(pack, [&](auto& flight) {
          at_work = &flight;
          phase(flight);
        });
      };
      try {
        phase_done.resize(flights.size() + 1);
        each([&](auto& flight) {
          flight.reduce(static_cast<int>(at));
          at += flight.limits().size();
        });
        each([](auto& flight) { flight.merge(); });
        each([](auto& flight) { flight.transform(); });
      } catch (...) {
        error = current_error(topology.rank(), "step", at_work->current());
      }
      norms.assign(groups, 0.0);
      at = 0;
      if (!error) each_flight(pack, [&](auto& flight) {
        flight.norms(norms.data() + at);
        at += flight.limits().size();
      });
      commit(error, groups);
      at = 0;
      each_flight(pack, [&](auto& flight) {
        for (double const limit : flight.limits()) {
          double const norm = std::sqrt(norms[at]);
          norms[at++] = norm > limit ? limit / norm : 1.0;
        }
      });
      publish(pack, [](auto& flight) { return flight.gather_gradients(); });
      at = 0;
      each_flight(pack, [&](auto& flight) {
        flight.apply(norms.data() + at);
        at += flight.limits().size();
      });
      publish(pack, [](auto& flight) { return flight.gather_parameters(); });
    }

    // Polls a phase of all flights until each is done with it. Those that share a channel take turns.
    template <class Pack, class Phase>
    void publish(Pack& pack, Phase&& phase) {
      std::ranges::fill(phase_done, char{0});
      drive("step", [&] {
        bool all = true;
        std::size_t i = 0;
        each_flight(pack, [&](auto& flight) {
          bool const waits = i < flights.size() && i >= most_flights && !phase_done[i - most_flights];
          if (!waits && !phase_done[i]) phase_done[i] = phase(flight);
          all = phase_done[i++] && all;
        });
        return all;
      }, [&] { return missing_rank(pack); }, [&] { return names_of(pack); });
    }

    // {ok, norms} of all ranks: the second agreement. Sums the norms in the order of ranks.
    void commit(std::optional<Error> const& error, std::size_t groups) {
      std::size_t const words = 1 + groups, ranks = static_cast<std::size_t>(topology.size());
      commit_out.assign(words, 0.0);
      commit_in.assign(words * ranks, 0.0);
      commit_out[0] = error ? 0.0 : 1.0;
      std::copy(norms.begin(), norms.end(), commit_out.begin() + 1);
      control_lane.clear();
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (static_cast<int>(rank) == topology.rank()) continue;
        control_lane.send(static_cast<int>(rank), 0, words * sizeof(double), Payload::control);
        control_lane.expect(static_cast<int>(rank), rank * words * sizeof(double), words * sizeof(double), Payload::control);
      }
      control_lane.post(commit_out.data(), commit_in.data());
      await(control_lane, "step");
      std::copy(commit_out.begin(), commit_out.end(),
                commit_in.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(topology.rank()) * words));
      bool all_ok = true;
      std::fill(norms.begin(), norms.end(), 0.0);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        all_ok = all_ok && commit_in[rank * words] == 1.0;
        for (std::size_t g = 0; g < groups; ++g) norms[g] += commit_in[rank * words + 1 + g];
      }
      if (!all_ok) throw Refused{explain_with("step", error ? &*error : nullptr, "")};
    }

    // Every rank testifies to the first refusal of its own, of what was started earlier or of the step. Where the step itself
    // was refused, what was started may still be under way: it ends before anything is closed.
    template <class Pack>
    void refuse_unless_unanimous(Pack& pack) {
      bool unanimous = true;
      Error const* first = nullptr;
      each_flight(pack, [&](auto& flight) {
        unanimous = unanimous && flight.unanimous();
        if (!first && flight.error()) first = &*flight.error();
      });
      if (unanimous) return;
      std::string description;
      for (auto* flight : flights) description += "\tstarted earlier\n" + flight->describe();
      Error const error = explain_with("step", first, description + "\tstep\n" + pack.describe());
      drive("step", [&] { return poll_flights(); }, [&] { return missing_rank(pack); }, [&] { return names_of(pack); });
      throw Refused{error};
    }

    // ---- broadcast, finish -----------------------------------------------------------------------------------------------

    template <class V>
    void broadcast(V const& variable) {
      static_assert(std::same_as<typename V::kind, Dense> || !V::State::sharded,
                    "parallax: a sharded variable has one copy of every row; there is nothing to broadcast");
      using T = typename V::scalar_type;
      guarded("broadcast", [&] {
        Fingerprint hash = context(Operation::broadcast);
        hash.add(variable.state().registration()->hash());
        std::optional<Error> error;
        try {
          check_owned(variable.state(), "broadcast");
        } catch (...) {
          error = current_error(topology.rank(), "broadcast", variable.name());
        }
        agreement.begin(hash.value(), !error, 0);
        agree("broadcast", error, [&] { return variable.name(); },
              [&] { return variable.name() + "\t" + variable.state().registration()->signature + '\n'; });
        std::span<T> values;
        if constexpr (std::same_as<typename V::kind, Dense>) {
          values = variable.values();
        } else {
          auto const table = variable.state().local();
          values = {table.data, static_cast<std::size_t>(table.rows * table.width)};
        }
        broadcast_values(values, variable.name());
        return 0;
      });
    }

    // Rank 0 deals the parts, then all gather them: 2 w (N - 1) / N bytes at the busiest rank instead of w (N - 1).
    template <class T>
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
          part_of(owner, [&](std::size_t at, std::size_t bytes) { dense.send(topology.owner_rank(owner), at, bytes, Payload::dense); });
        if (topology.rank() != 0 && topology.owner_rank(owner) == topology.rank())
          part_of(owner, [&](std::size_t at, std::size_t bytes) { dense.expect(0, at, bytes, Payload::dense); });
      }
      auto const missing = [&] { return dense.waiting_for(); };
      auto const named = [&] { return name; };
      dense.post(values.data(), values.data());
      drive("broadcast", [&] { return dense.test(); }, missing, named);
      Allgather<T, C> gather;
      gather.start(values.data(), begins);
      drive("broadcast", [&] { return gather.poll(dense); }, missing, named);
    }

    void finish() {
      guarded("finish", [&] {
        std::optional<Error> error;
        if (!flights.empty())
          error = Error{Errc::misuse, topology.rank(), "finish", flights.front()->names(), "updates were started and no step completed them"};
        agreement.begin(context(Operation::finish).value(), !error, 0);
        agree("finish", error, [] { return std::string{}; }, [] { return std::string{}; });
        finished = true;
        return 0;
      });
    }

    // ---- agreement -------------------------------------------------------------------------------------------------------

    // What every agreement includes: the operation, its number in the session, and all variables made so far.
    Fingerprint context(Operation operation) {
      Fingerprint hash;
      hash.add(static_cast<std::uint64_t>(operation));
      hash.add(++operations);
      hash.add(registry_hash);
      hash.add(fields_hash(options.fusion));
      return hash;
    }

    template <class Names, class Describe>
    void agree(char const* operation, std::optional<Error> const& error, Names&& names, Describe&& describe) {
      agreement.post();
      drive(operation, [&] { return agreement.poll(); }, [&] { return agreement.waiting_for(); }, names);
      if (agreement.unanimous()) return;
      throw Refused{explain_with(operation, error ? &*error : nullptr, describe())};
    }

    // Collective. The error that all ranks arrive at. Throws it where the ranks are out of step, which ends the session.
    // Where they called different operations, one of which may have been a step, what was started is dropped on all of them.
    Error explain_with(char const* operation, Error const* error, std::string const& details) {
      Testimony const own{operation, operations, error, error ? std::string{} : context_text(operation) + details};
      Verdict const verdict = explain(control_lane, own, [&](auto& lane) { await(lane, operation); });
      if (!verdict.in_step) throw verdict.error;
      if (!verdict.same_operation) {
        drive(operation, [&] { return poll_flights(); }, [&] { return missing_started(); }, [] { return std::string{}; });
        close_flights();
      }
      return verdict.error;
    }

    std::string context_text(char const* operation) const {
      std::string text = "\toperation " + std::to_string(operations) + ": " + operation + "\n\thosts";
      for (int const host : topology.hosts()) text += " " + std::to_string(host);
      text += " in " + std::to_string(topology.hops().size()) + " hops\n\tfusion " + fields_text(options.fusion) + "\n";
      for (auto const& known : registry) text += known->name + "\t" + known->signature + '\n';
      return text;
    }

    void enter(RegistrationPtr given) {
      std::erase_if(registry, [](RegistrationPtr const& known) { return known.use_count() == 1; });
      for (auto const& known : registry)
        if (known->name == given->name)
          throw Error{Errc::invalid_argument, topology.rank(), "Variable", given->name, "the session has a variable of this name already"};
      Fingerprint hash;
      hash.add(registry_hash);
      hash.add(given->hash());
      registry.push_back(given);
      registry_hash = hash.value();
      given->session = this;
    }

    template <class State>
    void check_owned(State const& state, char const* operation) const {
      if (state.registration()->session != this)
        throw Error{Errc::misuse, topology.rank(), operation, state.name(), "the variable belongs to another session"};
    }

    // ---- waiting ---------------------------------------------------------------------------------------------------------

    // Polls `done`, and what was started, until it is true or the deadline has passed. A failure here ends the session before
    // the caller's memory goes out of scope: no peer reads it any more when this throws.
    template <class Done, class Missing, class Names>
    void drive(char const* operation, Done&& done, Missing&& missing, Names&& names) {
      Patience<C> patience{topology.world()};
      try {
        while (!done()) {
          poll_flights();
          if (!patience.pause()) throw timeout_error(topology.world(), missing(), operation, names());
        }
      } catch (...) {
        end(current_error(topology.rank(), operation));
        throw;
      }
    }
    void await(Lane<C>& lane, char const* operation) {
      drive(operation, [&] { return lane.test(); }, [&] { return lane.waiting_for(); }, [] { return std::string{}; });
    }

    bool poll_flights() {
      bool all = true;
      for (auto* flight : flights) all = flight->poll() && all;
      return all;
    }

    // Runs one public operation: a refusal is thrown on as the Error that all ranks agreed on; anything else ends the session.
    template <class Body>
    auto guarded(char const* operation, Body&& body) {
      if (poisoned)
        throw Error{Errc::poisoned, poisoned->rank(), operation, "", std::string{"an earlier failure ended the session: "} + poisoned->what()};
      try {
        return body();
      } catch (Refused const& refused) {
        throw refused.error;
      } catch (...) {
        if (!poisoned) end(current_error(topology.rank(), operation));
        throw Error{*poisoned};
      }
    }

    // After this nothing of the session is in flight, and its peers are told.
    void end(Error const& error) {
      poisoned = error;
      topology.world().abort(error);
      withdraw();
    }
    void withdraw() noexcept {
      agreement.withdraw();
      control_lane.withdraw();
      dense.withdraw();
      mail.lane().withdraw();
      for (auto& pooled : pool) pooled.flight->withdraw();
    }

    // An end by exception takes the peers along; so does one with updates in flight.
    void leave() noexcept {
      try {
        bool const unwinding = std::uncaught_exceptions() > exceptions;
        if (unwinding && !finished && !poisoned)
          topology.world().abort({Errc::aborted, topology.rank(), "session", "", "rank " + std::to_string(topology.rank()) + " left the session by an exception"});
        else if (!flights.empty() && !poisoned)
          topology.world().abort({Errc::misuse, topology.rank(), "session", flights.front()->names(), "the session was destroyed with updates in flight"});
      } catch (...) {
      }
      withdraw();
      close_flights();
    }
    void close_flights() noexcept {
      for (auto* flight : flights) flight->close();
      flights.clear();
    }

    // ---- flights ---------------------------------------------------------------------------------------------------------

    template <class... Updates>
    auto& take_flight(detail::FlightChannels route) {
      using Flight = detail::Flight<C, Updates...>;
      for (auto& pooled : pool)
        if (pooled.channel == route.rows && !pooled.flight->busy() && typeid(*pooled.flight) == typeid(Flight))
          return static_cast<Flight&>(*pooled.flight);
      pool.push_back({route.rows, std::make_unique<Flight>(topology, options.fusion, this, route, traffic)});
      return static_cast<Flight&>(*pool.back().flight);
    }

    template <class Pack, class F>
    void each_flight(Pack& pack, F&& f) {
      for (auto* flight : flights) f(*flight);
      f(pack);
    }
    template <class Pack>
    int missing_rank(Pack& pack) {
      int const rank = pack.waiting_for();
      return rank >= 0 ? rank : missing_started();
    }
    int missing_started() const {
      for (auto* flight : flights)
        if (int const rank = flight->waiting_for(); rank >= 0) return rank;
      return -1;
    }
    template <class Pack>
    std::string names_of(Pack& pack) {
      std::string names;
      each_flight(pack, [&](auto& flight) { names += (names.empty() ? "" : ", ") + flight.names(); });
      return names;
    }

    struct Pooled {
      int channel;
      std::unique_ptr<detail::FlightBase<C>> flight;
    };

    Topology<C> topology;
    SessionOptions options;
    Traffic traffic;
    int exceptions = std::uncaught_exceptions();
    std::int64_t steps = 0;
    std::uint64_t operations = 0, registry_hash = 0;
    bool finished = false;
    std::optional<Error> poisoned;
    std::vector<RegistrationPtr> registry;
    Agreement<C> agreement;
    Lane<C> control_lane, dense;
    Mail<C> mail;
    std::vector<Pooled> pool;
    std::vector<detail::FlightBase<C>*> flights;  // started, in order
    std::vector<char> phase_done;  // by flight, the step's own last
    std::vector<double> norms, commit_out, commit_in;
    std::vector<std::size_t> begins;  // of the owners' parts in a broadcast
  };

  std::unique_ptr<Core> core_;
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
