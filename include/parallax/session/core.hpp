// What every collective operation of a session stands on: agreements, waits under a deadline, and one way to end.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "parallax/comm/journal_report.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/core/function_ref.hpp"
#include "parallax/core/math.hpp"
#include "parallax/core/pointer.hpp"
#include "parallax/session/agreement.hpp"
#include "parallax/session/started.hpp"

namespace parallax {


namespace detail {

// What a wait is for, told if it takes too long: `waiting_for`, the rank that is behind, and `names`, the variables concerned.
// Flights have both; a lane or an agreement is given names by this.
template <class Exchange>
struct Named {
  Exchange const& exchange;
  FunctionRef<std::string()> names;
  int waiting_for() const { return exchange.waiting_for(); }
};
template <class Exchange, class Names>
Named(Exchange const&, Names&) -> Named<Exchange>;

// The updates of a step, and what was started before.
template <Communicator C>
struct WholeStep {
  Started<C> const& started;
  FlightBase<C> const& pack;
  int waiting_for() const {
    int const rank = pack.waiting_for();
    return rank >= 0 ? rank : started.waiting_for();
  }
  std::string names() const {
    std::string const earlier = started.names(), own = pack.names();
    return earlier + (earlier.empty() || own.empty() ? "" : ", ") + own;
  }
};

template <Communicator C>
class SessionCore {
 public:
  enum Channel : int { control = 0, step_rows = 1, step_dense = 2, pull_rows = 3, first_flight = 4 };
  static constexpr std::size_t most_flights = (collectives_channel - first_flight) / 2;

  // Thrown inside for what all ranks agreed to refuse: the session stays usable.
  struct Refused {
    Error error;
  };

  SessionCore(Topology<C> given, SessionOptions const& given_options)
      : topology{std::move(given)},
        options{given_options},
        agreement{topology, control, traffic},
        control_lane{topology, control, traffic},
        dense{topology, step_dense, traffic},
        mail{topology, pull_rows, traffic},
        started{most_flights} {
    Fingerprint hash;
    for (int const host : topology.hosts()) hash.add(static_cast<std::uint64_t>(host));
    hash.add(static_cast<std::uint64_t>(topology.hops().size()));
    registry_hash = hash.value();
    if constexpr (KeepsJournals<C>) journal = &topology.world().journal();
  }
  SessionCore(SessionCore&&) = delete;

  void enter(RegistrationPtr given) {
    std::erase_if(registry, [](RegistrationPtr const& known) { return known.owners() == 1; });
    for (auto const& known : registry)
      if (known->name == given->name)
        throw Error{Errc::invalid_argument, topology.rank(), "Variable", given->name,
                    "the session has a variable of this name already"};
    Fingerprint hash;
    hash.add(registry_hash);
    hash.add(given->hash);
    registry.push_back(given);
    registry_hash = hash.value();
    given->session = this;
  }

  template <class State>
  void check_owned(State const& state, char const* operation) const {
    if (state.registration()->session != this) throw state.registration()->stranger(topology.rank(), operation);
  }


  // ---- agreement -------------------------------------------------------------------------------------------------------

  // What every agreement includes: the operation, its number in the session, and all variables made so far.
  Fingerprint context(Operation operation) {
    Fingerprint hash;
    hash.add(static_cast<std::uint64_t>(operation));
    journal->enter(operation, ++operations, steps, clock());
    finished = false;
    hash.add(operations);
    hash.add(registry_hash);
    hash.add(fields_hash(options));
    return hash;
  }


  // Collective. `describe` is asked where the ranks do not agree.
  void agree(char const* operation, std::optional<Error> const& error, FunctionRef<std::string()> names,
             FunctionRef<std::string()> describe) {
    agreement.post();
    advance(Phase::agreeing);
    drive(operation, [&] { return agreement.poll(); }, Named<Agreement<C>>{agreement, names});
    advance(Phase::exchanging);
    if (agreement.unanimous()) return;
    throw Refused{explain_with(operation, error ? &*error : nullptr, describe())};
  }

  // Collective. The error that all ranks arrive at. Throws it where the ranks are out of step, which ends the session.
  // Where they called different operations, one of which may have been a step, what was started is dropped on all of them.
  Error explain_with(char const* operation, Error const* error, std::string const& details) {
    Testimony const own{operation, operations, error, error ? std::string{} : context_text(operation) + details};
    Verdict const verdict =
        Explanation<C>::of(control_lane, own, [&](auto& lane) { await(lane, operation, [] { return std::string{}; }); });
    if (!verdict.in_step) throw verdict.error;
    if (!verdict.same_operation) {
      drive(operation, [&] { return started.poll(); }, started);
      started.close();
    }
    return verdict.error;
  }

  std::string context_text(char const* operation) const {
    std::string text = "\toperation " + std::to_string(operations) + ": " + operation + "\n\thosts";
    for (int const host : topology.hosts()) (text += ' ') += std::to_string(host);
    text += " in " + std::to_string(topology.hops().size()) + " hops\n\toptions " + fields_text(options) + "\n";
    for (auto const& known : registry) text += known->name + "\t" + known->signature + '\n';
    return text + Testimony::section_end;
  }


  // ---- pulls -----------------------------------------------------------------------------------------------------------

  // Collective. All of a pull that has been planned.
  void fetch(FetchBase<C>& fetch) {
    auto const names = [&] { return fetch.names(); };
    Fingerprint hash = context(Operation::pull);
    journal->name(fetch.first_name());
    hash.add(fetch.hash());
    try {
      agreement.reserve(fetch.counts());
    } catch (...) {
      if (!fetch.error) fetch.error = current_error(topology.rank(), "pull", current);
    }
    agreement.begin(hash.value(), !fetch.error, joined, fetch.counts());
    fetch.tell([&](int rank, std::size_t which, std::size_t count) { agreement.tell(rank, which, count); });
    agree("pull", fetch.error, names, [&] { return fetch.describe(); });
    fetch.hear([&](int rank, std::size_t which) { return static_cast<std::size_t>(agreement.told(rank, which)); });
    fetch.begin(topology, false);
    drive("pull", [&] { return carry(mail, [&](auto&& f) { f(fetch); }); }, Named<Mails<C>>{mail, names});
  }
  // The rows that an earlier step has sent on their way are here.
  void await_rows(char const* operation) {
    auto const names = [&] { return ahead.describe(); };
    drive(operation, [&] { return ahead.poll(mail); }, Named<Mails<C>>{mail, names});
    ahead.sweep();
  }
  // A fetch of this type that nobody uses, from the pool.
  template <class Fetch>
  void take_fetch(Shared<Fetch>& fetch) {
    for (auto& pooled : fetches)
      if (pooled.owners() == 1 && typeid(*pooled) == typeid(Fetch)) {
        fetch = Shared<Fetch>{static_cast<Fetch*>(pooled.get())};
        return;
      }
    fetch = make_counted<Fetch>();
    fetches.push_back(Shared<FetchBase<C>>{fetch.get()});
  }

  // ---- the end of a step -----------------------------------------------------------------------------------------------

  // Every rank testifies to the first refusal of its own, of what was started earlier or of the step. Where the step itself
  // was refused, what was started may still be under way: it ends before anything is closed.
  void refuse_unless_unanimous(FlightBase<C>& pack) {
    bool unanimous = pack.unanimous();
    Error const* first = nullptr;
    std::string description;
    for (auto* flight : started) {
      unanimous = unanimous && flight->unanimous();
      if (!first && flight->error()) first = &*flight->error();
    }
    if (unanimous) return;
    if (!first && pack.error()) first = &*pack.error();
    for (auto* flight : started) description += "\tstarted earlier\n" + flight->describe();
    Error const error = explain_with("step", first, description + "\tstep\n" + pack.describe() + ahead.describe());
    drive("step", [&] { return started.poll(); }, WholeStep<C>{started, pack});
    throw Refused{error};
  }

  // {ok and finite, norms} of all ranks: the second agreement. Sums the norms of `groups` in the order of ranks. False where
  // a rank has found a sum that is not finite, as `found` says, and the step is to be skipped.
  bool commit(FlightBase<C>& pack, std::optional<Error> const& error, std::size_t groups, std::optional<Error> const& found) {
    advance(Phase::committing);
    words_out.assign(1 + groups, error ? 0.0 : found ? 1.0 : 2.0);
    std::copy(norms.begin(), norms.end(), words_out.begin() + 1);
    bool const adapts = started.adapts() || pack.adapts();
    uses = adapts ? started.use_words() + pack.use_words() : 0;
    if (uses > 0) {
      double const seconds = std::chrono::duration<double>{now(topology.world())}.count();
      if (!error) started.tell_use(words_out, seconds), pack.tell_use(words_out, seconds);
      words_out.resize(1 + groups + uses);
    }
    tell_all("step", [&] { return WholeStep<C>{started, pack}.names(); });
    double least = 2.0;
    std::fill(norms.begin(), norms.end(), 0.0);
    for (int rank = 0; rank < topology.size(); ++rank) {
      std::span const words = words_of(rank);
      least = std::min(least, words[0]);
      for (std::size_t g = 0; g < groups; ++g) norms[g] += words[1 + g];
    }
    auto const refuse = [&](auto const& why) { throw Refused{explain_with("step", why ? &*why : nullptr, "")}; };
    if (least == 0.0) refuse(error);
    if (least == 1.0 && options.non_finite == NonFinite::error) refuse(found);
    if (uses > 0) told_uses = words_in;
    return least == 2.0;
  }

  // As the options have them, or as they were measured.
  Costs const& costs_of(bool on_device) const {
    Costs const& given = on_device ? options.choice.device_costs : options.choice.costs;
    return given.measured() ? given : on_device ? own_device_costs : own_costs;
  }

  // Collective, the last act of a step whose commit told of the use of variables: methods are chosen and rows moved.
  void adapt(FlightBase<C>& pack, std::size_t groups) {
    if (uses == 0) return;
    std::size_t const stride = 1 + groups + uses;
    auto const costs = [&](bool on_device) {
      if (costs_of(on_device).measured()) return costs_of(on_device);
      if (!on_device) own_costs = calibrate(topology);
      if constexpr (CarriesDevice<C>)
        if (on_device) own_device_costs = calibrate<typename C::device_space>(topology);
      return costs_of(on_device);
    };
    auto const drive_move = [&](std::string const& name, FunctionRef<bool()> poll) {
      auto const names = [&] { return name; };
      drive("step", [&] { return poll(); }, Named<Mails<C>>{mail, names});
    };
    auto const all = [&](std::string const& name, bool mine) {
      words_out.assign(1, mine ? 1.0 : 0.0);
      tell_all("step", [&] { return name; });
      return *std::min_element(words_in.begin(), words_in.end()) == 1.0;
    };
    Adapting<C> by{topology, options.choice, costs, steps + 1, mail.lane(), drive_move, all, decisions};
    auto const words_of = [&](int rank) { return told_uses.data() + static_cast<std::size_t>(rank) * stride; };
    std::size_t at = 1 + groups;
    started.adapt(by, words_of, at);
    pack.adapt(by, words_of, at);
  }

  // Every rank's `words_out` to every rank, equally many.
  void tell_all(char const* operation, FunctionRef<std::string()> names) {
    std::size_t const words = words_out.size(), ranks = static_cast<std::size_t>(topology.size());
    words_in.assign(words * ranks, 0.0);
    control_lane.clear();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (static_cast<int>(rank) == topology.rank()) continue;
      control_lane.send(static_cast<int>(rank), 0, words * sizeof(double), Payload::control);
      control_lane.expect(static_cast<int>(rank), rank * words * sizeof(double), words * sizeof(double), Payload::control);
    }
    control_lane.post(words_out.data(), words_in.data());
    await(control_lane, operation, names);
    std::copy_n(words_out.data(), words, words_in.data() + static_cast<std::size_t>(topology.rank()) * words);
  }
  std::span<double const> words_of(int rank) const {
    return std::span{words_in}.subspan(static_cast<std::size_t>(rank) * words_out.size(), words_out.size());
  }

  // From the squared norms of clip groups to the factors of their gradients: those of `started`, then those of the step.
  void scales_from_norms(FlightBase<C> const& pack) {
    std::size_t at = 0;
    auto const convert = [&](FlightBase<C> const& flight) {
      for (double const limit : flight.limits()) {
        double const norm = square_root(norms[at]);
        norms[at++] = norm > limit ? limit / norm : 1.0;
      }
    };
    for (auto const* flight : started) convert(*flight);
    convert(pack);
  }

  void gather_gradients(FlightBase<C>& pack) {
    gather(pack, [](auto& flights) { return flights.gather_gradients(); });
  }
  void gather_measures(FlightBase<C>& pack) {
    if (started.shares_measures() || pack.shares_measures())
      gather(pack, [](auto& flights) { return flights.gather_measures(); });
  }
  void gather_parameters(FlightBase<C>& pack) {
    gather(pack, [](auto& flights) { return flights.gather_parameters(); });
  }
  template <class Phase>
  void gather(FlightBase<C>& pack, Phase phase) {
    started.begin_gathering();
    bool gathered = false;
    drive("step", [&] {
      bool const all = phase(started);
      gathered = gathered || phase(pack);
      return all && gathered;
    }, WholeStep<C>{started, pack});
  }

  // ---- waiting ---------------------------------------------------------------------------------------------------------

  // Polls `done`, and what was started, until it is true or the deadline has passed. A failure here ends the session before
  // the caller's memory goes out of scope: no peer reads it any more when this throws.
  template <class Done, class Awaited>
  void drive(char const* operation, Done&& done, Awaited const& awaited) {
    Patience<C> patience{topology.world()};
    try {
      while (!done()) {
        progress();
        if (patience.idles()) idle(awaited.waiting_for());
        if (patience.pause()) continue;
        if (done()) break;  // it was this rank that stood still
        throw timed_out(operation, awaited.waiting_for(), awaited.names());
      }
    } catch (...) {
      end(current_error(topology.rank(), operation));
      throw;
    }
  }
  // What was started, and rows that were fetched ahead.
  void progress() {
    started.poll();
    ahead.poll(mail);
  }
  // A sign of life from a long wait, for those whose wait is longer.
  void idle(int waiting_for) {
    journal->wait(waiting_for, clock());
    if constexpr (KeepsJournals<C>) topology.world().answer();
  }
  Error timed_out(char const* operation, int missing, std::string const& names) {
    idle(missing);
    Status const own = journal->status();
    std::string_view const phase = own.count ? to_string(own.latest()->phase) : "";
    if constexpr (KeepsJournals<C>) {
      JournalReport<C> const report{topology.world()};
      return timeout_error(topology.world(), report.end_of_chain(missing), operation, names, phase, report.text());
    } else {
      return timeout_error(topology.world(), missing, operation, names, phase);
    }
  }
  std::int64_t clock() const { return now(topology.world()).count(); }
  void advance(Phase phase) { journal->advance(phase, traffic.payload_sent() - sent_before, clock()); }

  void await(Lane<C>& lane, char const* operation, FunctionRef<std::string()> names) {
    drive(operation, [&] { return lane.test(); }, Named<Lane<C>>{lane, names});
  }

  // ---- the end ---------------------------------------------------------------------------------------------------------

  // Runs one public operation: a refusal is thrown on as the Error that all ranks agreed on; anything else ends the session.
  template <class Body>
  auto guarded(char const* operation, Body&& body) {
    Guard const turn{takes_turns ? &turns : nullptr};
    if (poisoned)
      throw Error{Errc::poisoned, poisoned->rank(), operation, "",
                  std::string{"an earlier failure ended the session: "} + poisoned->what()};
    struct Leaving {  // notes that the operation has ended, however it did
      SessionCore& core;
      ~Leaving() { core.advance(Phase::done); }
    } const leaving{*this};
    sent_before = traffic.payload_sent();
    current = {};
    try {
      return body();
    } catch (Refused const& refused) {
      throw refused.error;
    } catch (...) {
      if (!poisoned) end(current_error(topology.rank(), operation));
      throw Error{*poisoned};
    }
  }

  // Local, by another thread than the session's: a little progress, if the session is not at work itself.
  void help() noexcept {
    if (!turns.try_lock()) return;
    try {
      if (!poisoned) progress();
    } catch (...) {
      end(current_error(topology.rank(), "poll"));
    }
    turns.unlock();
  }
  void take_turns(bool on) {
    if constexpr (KnowsThreads<C>)
      if (on && !topology.world().serialized())
        throw Error{Errc::misuse, topology.rank(), "ProgressThread", "",
                    "only the thread that made the communicator may use it (MPI: less than MPI_THREAD_SERIALIZED)"};
    takes_turns = on;
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
    mail.withdraw();
    for (auto& pooled : pool) pooled.flight->withdraw();
  }

  // An end by exception takes the peers along; so does one with updates in flight.
  void leave() noexcept {
    try {
      bool const unwinding = std::uncaught_exceptions() > exceptions;
      if (unwinding && !finished && !poisoned)
        topology.world().abort({Errc::aborted, topology.rank(), "session", "",
                                "rank " + std::to_string(topology.rank()) + " left the session by an exception"});
      else if ((!started.empty() || ahead.falling()) && !poisoned)
        topology.world().abort({Errc::misuse, topology.rank(), "session",
                                started.empty() ? std::string{} : (*started.begin())->names(),
                                "the session was destroyed with updates or rows in flight"});
    } catch (...) {
    }
    withdraw();
    started.close();
  }

  // A flight of this type on these channels, from the pool.
  template <class Flight>
  Flight& take_flight(FlightChannels route) {
    for (auto& pooled : pool)
      if (pooled.channel == route.rows && !pooled.flight->busy() && typeid(*pooled.flight) == typeid(Flight))
        return static_cast<Flight&>(*pooled.flight);
    auto* const flight = new Flight(topology, options, joined, this, route, traffic, current);
    pool.push_back({route.rows, Owned<FlightBase<C>>{flight}});
    return *flight;
  }

  struct Pooled {
    int channel;
    Owned<FlightBase<C>> flight;
  };

  Topology<C> topology;
  SessionOptions options;
  Traffic traffic;
  int exceptions = std::uncaught_exceptions();
  std::int64_t steps = 0;
  std::uint64_t operations = 0, registry_hash = 0;
  bool finished = false, joined = false;  // joined: this rank has no data any more
  bool all_joined = false;                // as of the last step
  std::optional<Error> poisoned;
  SpinLock turns;  // held by whoever works on the session, where two threads do
  bool takes_turns = false;
  std::vector<RegistrationPtr> registry;
  Agreement<C> agreement;
  Lane<C> control_lane, dense;
  Mails<C> mail;
  std::string_view current;  // the variable being worked on, for errors
  Journal own_journal;  // where the communicator keeps none
  Journal* journal = &own_journal;
  std::uint64_t sent_before = 0;  // payload, by the operations before the current one
  std::vector<Pooled> pool;
  Started<C> started;
  std::vector<Shared<FetchBase<C>>> fetches;  // a pool of those that were named ahead
  Ahead<C> ahead;
  std::vector<double> norms;                 // of the clip groups
  std::vector<double> words_out, words_in;   // what ranks tell each other in a step
  std::vector<double> told_uses;             // with the last commit, if it told of the use of variables
  std::size_t uses = 0;                      // how many words of it
  Costs own_costs, own_device_costs;         // as they were measured
  std::vector<Decision> decisions;
};

}  // namespace detail
}  // namespace parallax
