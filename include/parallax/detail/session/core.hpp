// Core of a session, on which its operations work: made by `Session`, of parts that wait, agree, and use again. Each file of
// the room with an operation includes this one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/type.hpp"
#include "parallax/detail/engine/beside.hpp"
#include "parallax/detail/engine/rounds.hpp"
#include "parallax/detail/engine/waiting.hpp"
#include "parallax/detail/pull/fetch.hpp"
#include "parallax/detail/step/flight.hpp"
#include "parallax/detail/step/flights.hpp"
#include "parallax/detail/variable/registration.hpp"

namespace parallax::inline v0_2::detail {

// Pools of a session. Owns flights of updates and fetches of rows, by their types, for use from operation to operation, as long
// as the session. A step of a list of argument types takes the flight of the last such step, with its seats, ways and buckets;
// so steady use allocates nothing. A look-up takes as long as there are pooled ones.
template <Communicator C>
class Pools {
 public:
  // Returns, for `step` and `start`, a free flight of this type on the channels of `route`, or a new one. F: a FlightOf.
  template <class F>
  F& flight(FlightRoom<C> const& room, FlightChannels route) {
    for (auto& pooled : flights_)
      if (pooled.channel == route.rows && !pooled.flight->busy() && pooled.type == type_tag<F>())
        return static_cast<F&>(*pooled.flight);
    auto* const flight = new F(room, route);
    flights_.push_back({type_tag<F>(), route.rows, Owned<Flight<C>>{flight}});
    return *flight;
  }
  // Returns, for `prefetch`, a free fetch of this type, held by the pool only until now, or a new one. F: a Fetch.
  template <class F>
  Shared<F> fetch() {
    for (auto& pooled : fetches_)
      if (pooled.fetch.owners() == 1 && pooled.type == type_tag<F>()) return Shared<F>{static_cast<F*>(pooled.fetch.get())};
    auto fetch = make_counted<F>();
    fetches_.push_back({type_tag<F>(), Shared<FetchBase<C>>{fetch.get()}});
    return fetch;
  }
  // Returns the flight, out of the pool, for a captured step, whose graph goes on using its memory; null if it is not here.
  Owned<Flight<C>> take(Flight<C> const& flight) {
    Owned<Flight<C>> taken;
    for (auto& pooled : flights_)
      if (pooled.flight.get() == &flight) taken = std::move(pooled.flight);
    drop_if(flights_, [](PooledFlight const& pooled) { return !pooled.flight; });
    return taken;
  }
  // Returns, after an abort, once no peer reads memory of the flights; fetches travel by the core's mail, and are no part here.
  void withdraw() noexcept {
    for (auto& pooled : flights_) pooled.flight->withdraw();
  }

 private:
  struct PooledFlight {
    TypeTag type;
    int channel;
    Owned<Flight<C>> flight;
  };
  struct PooledFetch {
    TypeTag type;
    Shared<FetchBase<C>> fetch;
  };
  List<PooledFlight> flights_;
  List<PooledFetch> fetches_;  // named ahead
};

// Owner of a capture of a session's steps, see `capture`; it is shown each step taken meanwhile.
template <Communicator C>
class Capturing {
 public:
  // Local. Makes the flight, with its updates prepared, refuse everything that cannot be captured.
  virtual void prepared(Flight<C>& own) = 0;

 protected:
  ~Capturing() = default;
};

// Engine of a session, which owns one; every operation is a function that takes it first. Its waits let everything under way
// progress: started flights, and rows named ahead. C: the edge to the communicator.
//
// Members stand in the order of their references to each other. Memory that operations use again stays allocated in them:
// `rounds`, `mail`, `dense`, `pools` and the scratch at the end.
template <Communicator C>
class SessionCore final : private Underway {
 public:
  // Channels of the communicator. `control`: all agreements but those of starts, so that ranks in different operations meet.
  // `step_rows`, `step_dense`: the flight of a step itself, and `broadcast`. `pull_rows`: pulls, rows ahead, `assign` and
  // `scale`. From `first_flight` on each started flight has two, one for agreement and rows, one for dense gradients.
  enum Channel : int { control = 0, step_rows = 1, step_dense = 2, pull_rows = 3, first_flight = 4 };
  // Number of started flights with channels of their own; a further one takes those of the earliest, once it has arrived.
  static constexpr std::size_t most_flights = (collectives_channel - first_flight) / 2;

  // Local. Takes the topology, part of every agreement. Opens this rank's journal until `finish`. May throw std::bad_alloc.
  PARALLAX_COLD SessionCore(Topology<C> given, SessionOptions const& given_options);
  SessionCore(SessionCore&&) = delete;

  // Local. Begins an operation: enters it into the journal, and returns the common part of every agreement about it. The caller
  // adds its own part, and begins `rounds.agreement` with both. `variable`: the first one concerned.
  Fingerprint begin(Operation operation, std::string_view variable = {});
  // Collective, within an operation, after its agreement. Waits for the work behind the steps, and throws as `Behind::settle`.
  void settle_behind(char const* operation) {
    if (behind) behind->settle(operation);
  }
  // Collective, once this rank has taken a turn (see ReadsInPlace): it has read all it had to. Returns once all have. `names`:
  // of the variables at hand, for the report of a long wait. Throws as `Waiting::drive`: Error (timeout), for one.
  void await_turns(char const* operation, FunctionRef<std::string()> names) {
    struct Turns {
      C& world;
      int waiting_for() const { return world.unread(); }
    } const turns{topology.world()};
    if (turns.waiting_for() >= 0) waiting.drive(operation, [&] { return turns.waiting_for() < 0; }, {turns, names});
  }
  // Collective. Waits, as `Waiting::drive`, until all started flights have arrived, or were refused, on all ranks: others may
  // read memory of flights started here for a while after this one has read theirs.
  void await_started(char const* operation) {
    auto const names = [&] { return flights.names(); };
    waiting.drive(operation, [&] { return flights.poll_started(); }, {flights, names});
    topology.world().take_turn();
    await_turns(operation, names);
  }
  // Local. Throws Error (misuse) for a variable of another session.
  template <class State>
  void check_owned(State const& state, char const* operation) const {
    registry.check_owned(*state.registration(), topology.rank(), operation);
  }
  // Local. Throws the error of batches found wrong by a device, of any variable. `waits`: waits for devices with such batches.
  PARALLAX_COLD void check_late(char const* operation, bool waits = true) const {
    for (auto const& variable : registry.variables())
      if (variable->state && variable->check_late) variable->check_late(variable->state, topology.rank(), operation, waits);
  }
  // Local. Calls `prepare`. Returns its exception, this rank's refusal, as an Error about the variable at hand; or nothing.
  std::optional<Error> attempt(char const* operation, FunctionRef<void()> prepare) const {
    try {
      prepare();
      return std::nullopt;
    } catch (...) {
      return current_error(topology.rank(), operation, waiting.current);
    }
  }
  // Collective. Agrees about one operation on one variable, before anything is done; waits, and throws Refused if ranks differ
  // or one refuses. `text`: this rank's next act, for that error. `more`: a hash of all else that they must have in common.
  // `prepare` is local: its exception is this rank's refusal, as a variable of another session is.
  template <class State, class Prepare>
  void agree_on(State const& state, Operation operation, std::string const& text, std::uint64_t more, Prepare&& prepare) {
    auto const word = to_string(operation).data();
    Fingerprint hash = begin(operation);
    hash.add(more);
    waiting.current = state.name();
    std::optional<Error> const error = attempt(word, [&] {
      check_owned(state, word);
      prepare();
    });
    rounds.agreement.begin(hash.value(), !error, joined, 0);
    rounds.agree(
        word, error, [&] { return state.name(); }, [&] { return state.name() + "\t" + text + '\n'; });
  }

  // Collective. Refuses: this rank can take no part in the operation. Waits for the peers, who meet the refusal in the
  // agreement of any call. Throws Refused, with an Error (misuse) of the text `why`. `as`: name of the operation in the error.
  [[noreturn]] void refuse(Operation operation, char const* as, std::string const& why);

  // Collective. Waits, as `Waiting::drive`, until the rows sent on their way by an earlier step are here, and forgets batches
  // that nobody pulls. Called at the beginning of an operation.
  void await_rows(char const* operation);
  // Returns the parts of the core for a flight that is made or used again: it refers to this core, which outlives it.
  FlightRoom<C> flight_room() { return {topology, options, joined, this, traffic, waiting.current}; }

  // Returns the costs of the options or, without any, the measured ones, of variables in a device's memory if `on_device`.
  Costs const& costs_of(bool on_device) const;

  // Local. Leaves, by the session's destructor; a forked child does nothing. Aborts the communicator as an exception passes, or
  // with updates or rows in flight. Rank 0 tells stderr of a missing `finish`. Returns once no peer touches this rank's memory.
  void leave() noexcept;

  // Lets started flights and rows fetched ahead progress, at each poll of a wait. Throws the errors of a Request's `test`.
  void progress() override {
    flights.poll_started();
    ahead.poll(mail);
  }

  Topology<C> topology;
  SessionOptions options;
  Traffic traffic;
  std::int64_t steps = 0;
  bool finished = false, joined = false;  // joined: this rank has no data any more
  bool all_joined = false;                // as of the last step
  // Bits sent to all by this rank with the next step's commit: it has an act for all ranks to do together; work behind its
  // steps is busy. `wished`: bits sent by any rank with the last commit.
  enum Wish : unsigned { to_meet = 1, busy = 2 };
  unsigned wish = 0, wished = 0;
  Wishful* wishful = nullptr;  // owned by nobody here
  Owned<Held> held;
  Registry registry;
  Waiting<C> waiting;
  Rounds<C> rounds;
  Lane<C> dense;
  Mails<C> mail;
  Pools<C> pools;
  Flights<C> flights;
  Ahead<C> ahead;
  Costs own_costs, own_device_costs;  // measured
  std::vector<Decision> decisions;
  List<double> norms, told_uses;      // scratch of steps
  List<std::size_t> begins;           // scratch of broadcasts: the owners' parts
  Owned<Behind> behind;               // null until there is something
  Capturing<C>* capturing = nullptr;  // while a step is captured

 private:
  // Collective. Waits until started flights arrive, or are refused; then all ranks forget them, uncompleted.
  void drop(char const* operation) override {
    await_started(operation);
    flights.close(false);
  }
  // Brings all channels to rest, after an abort, or as the session is destroyed; returns once no peer touches our memory.
  void withdraw() noexcept override {
    rounds.withdraw();
    dense.withdraw();
    mail.withdraw();
    pools.withdraw();
    topology.world().await_readers();
  }
  std::string settings() const override { return "options " + fields_text(options); }

  SessionOptions hashed_;  // the options at their last hash
  std::uint64_t options_hash_ = fields_hash(hashed_);
};

template <Communicator C>
SessionCore<C>::SessionCore(Topology<C> given, SessionOptions const& given_options)
    : topology{std::move(given)},
      options{given_options},
      registry{this},
      waiting{topology, traffic, *this},
      rounds{topology, control, traffic, waiting, registry},
      dense{topology, step_dense, traffic},
      mail{topology, pull_rows, traffic},
      flights{most_flights} {
  Fingerprint hash;
  for (int const host : topology.hosts()) hash.add(static_cast<std::uint64_t>(host));
  hash.add(static_cast<std::uint64_t>(topology.hops().size()));
  registry.add(hash.value());
  registry.tells(waiting);
  waiting.journal().open(true);
}

template <Communicator C>
Fingerprint SessionCore<C>::begin(Operation operation, std::string_view variable) {
  if (std::exchange(finished, false)) waiting.journal().open(true);
  if (!(options == hashed_)) options_hash_ = fields_hash(hashed_ = options);
  return rounds.begin(operation, steps, options_hash_, variable);
}

template <Communicator C>
void SessionCore<C>::refuse(Operation operation, char const* as, std::string const& why) {
  Error const error{Errc::misuse, topology.rank(), as, "", why};
  rounds.agreement.begin(begin(operation).value(), false, joined, 0);
  rounds.agree(
      as, error, [] { return std::string{}; }, [] { return std::string{}; });
  throw Refused{error};
}

template <Communicator C>
void SessionCore<C>::await_rows(char const* operation) {
  auto const names = [&] { return ahead.describe(); };
  waiting.drive(operation, [&] { return ahead.poll(mail); }, {mail, names});
  ahead.sweep();
}

template <Communicator C>
Costs const& SessionCore<C>::costs_of(bool on_device) const {
  Costs const& given = on_device ? options.choice.device_costs : options.choice.costs;
  return given.measured() ? given : on_device ? own_device_costs : own_costs;
}

template <Communicator C>
void SessionCore<C>::leave() noexcept {
  if (waiting.in_child()) return;
  try {
    if (waiting.unwinding() && !finished && !waiting.ended()) topology.world().abort(waiting.left());
    else if ((flights.any_started() || ahead.falling()) && !waiting.ended())
      topology.world().abort({Errc::misuse, topology.rank(), "session",
                              flights.any_started() ? flights.started().front()->names() : std::string{},
                              "the session was destroyed with updates or rows in flight"});
    else if (rounds.operations() > 0 && !finished && !waiting.ended() && topology.rank() == 0)
      std::fputs("parallax: the session was destroyed without finish: nothing proves that every rank has completed its steps\n",
                 stderr);
  } catch (...) {}
  if (rounds.operations() == 0) waiting.journal().open(false);
  withdraw();
  flights.close(false);
}

}  // namespace parallax::detail
