// `Session::step`: prepare, agree, exchange, commit, apply. Each phase stands here once, for all started flights and for the
// step's own updates. The session calls `step`, at the end; the phases ask the flights, and these the seats of their updates.
#pragma once

#include <optional>
#include <string>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/math.hpp"
#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// Second half of a step, once everything has arrived: from here on no rank may stop before the commit. Made for one step; its
// lists are the core's scratch. Refers to the core.
template <Communicator C>
class Completing {
 public:
  explicit Completing(SessionCore<C>& core)
      : core_{&core}, flights_{&core.flights}, norms_{core.norms}, told_{core.told_uses} {}

  // Collective. Runs the phases in their order, each for all updates of all flights, and waits for peers. Returns false if the
  // step was skipped, on all ranks. Throws Refused for a refusal at the commit. A later exception ends the session: some
  // parameters may have changed.
  bool complete();

 private:
  // Waits, as `Waiting::drive`, until `done`; a report ascribes the wait to the flights' variables.
  void drive(FunctionRef<bool()> done) {
    core_->waiting.drive("step", done, {*flights_, [&] { return flights_->names(); }});
  }

  // Collective. Waits for the second agreement: {ok and finite, wishes, norms, words of use} of all ranks. Sums the norms of
  // clip groups in the order of ranks. `error`, `not_finite`: found by this rank, if any. Returns false to skip the step over a
  // rank's `not_finite`. Throws Refused for a rank's `error`, and under NonFinite::error for a `not_finite`.
  bool commit(std::optional<Error> const& error, std::optional<Error> const& not_finite);

  // Turns the squared norms of clip groups, summed over ranks, into the factors of their gradients: 1 below the limit.
  void scales_from_norms();
  // Returns the factor of a clip group by its number in the step; 1 for updates of none.
  double scale_of(int clip) const { return clip < 0 ? 1.0 : norms_[static_cast<std::size_t>(clip)]; }

  // Collective. Waits until every flight has passed a phase, which is polled. Flights on one pair of channels take turns.
  template <class Phase>
  void gather(Phase phase) {
    flights_->begin_gathering();
    drive([&] { return flights_->gather(phase); });
  }

  // Collective, the last act of a step whose commit told of the use of variables. Chooses policies, and waits for rows to move.
  void adapt();

  static constexpr double wish = 4.0;  // factor of a bit in the commit's first word

  SessionCore<C>* core_;
  Flights<C>* flights_;
  std::size_t clips_ = 0, uses_ = 0;  // clip groups; words on the use of variables
  List<double>& norms_;               // of the clip groups, then their factors
  List<double>& told_;                // with the commit
};

// An error of this rank before the commit is kept, and told there: the other ranks are on their way to it.
template <Communicator C>
bool Completing<C>::complete() {
  bool const finite = core_->options.non_finite != NonFinite::propagate;
  clips_ = flights_->number_clips();
  norms_.assign(clips_, 0.0);
  std::optional<Error> not_finite, error = core_->attempt("step", [&] {
    flights_->seats([](auto& seat, int clip) { seat.reduce(clip); });
    flights_->seats([](auto& seat, int) { seat.merge(); });
    flights_->seats([](auto& seat, int) { seat.transform(); });
    flights_->each([&](auto& flight) { flight.seek(finite); });
  });
  if (!error) {
    drive([&] { return flights_->all([](auto& flight) { return flight.findings_arrived(); }); });
    flights_->seats([&](auto& seat, int clip) {
      if (clip >= 0) seat.norm(norms_[static_cast<std::size_t>(clip)]);
    });
  }
  if (!error && finite) {
    flights_->each([&](auto& flight) {
      if (!error && !not_finite) error = flight.non_finite(true);
      if (!error && !not_finite) not_finite = flight.non_finite(false);
    });
  }
  if (!commit(error, not_finite)) return false;
  core_->waiting.arrive(Phase::applying);
  scales_from_norms();
  gather([](auto& flight) { return flight.gather_gradients(); });
  flights_->seats([&](auto& seat, int clip) {
    if (seat.measures) seat.measure(scale_of(clip));
  });
  if (flights_->any([](auto& flight) { return flight.shares_measures(); }))
    gather([](auto& flight) { return flight.gather_measures(); });
  flights_->seats([&](auto& seat, int clip) { seat.apply(scale_of(clip)); });
  gather([](auto& flight) { return flight.gather_parameters(); });
  if (uses_ > 0) adapt();
  return true;
}

PARALLAX_STRICT_ARITHMETIC_BEGIN
template <Communicator C>
bool Completing<C>::commit(std::optional<Error> const& error, std::optional<Error> const& not_finite) {
  auto& rounds = core_->rounds;
  core_->waiting.advance(Phase::committing);
  rounds.words.assign(1 + clips_, (error ? 0.0 : not_finite ? 1.0 : 2.0) + wish * core_->wish);
  std::copy(norms_.begin(), norms_.end(), rounds.words.begin() + 1);
  uses_ = 0;
  if (flights_->any([](auto& flight) { return flight.adapts(); })) {
    flights_->seats([&](auto& seat, int) { uses_ += seat.use_words(); });
    double const seconds = core_->waiting.seconds();
    flights_->seats([&](auto& seat, int) { seat.tell_use(rounds.words, seconds); });
  }
  rounds.tell_all("step", [&] { return flights_->names(); });
  double least = 2.0;
  core_->wished = 0;
  std::fill(norms_.begin(), norms_.end(), 0.0);
  for (int rank = 0; rank < core_->topology.size(); ++rank) {
    Slice<double const> const words = rounds.told(rank);
    auto const wishes = static_cast<unsigned>(words[0] / wish);
    core_->wished |= wishes;
    least = std::min(least, words[0] - wish * wishes);
    for (std::size_t g = 0; g < clips_; ++g) norms_[g] += words[1 + g];
  }
  auto const refuse = [&](auto const& why) { throw Refused{rounds.explain("step", why ? &*why : nullptr, "")}; };
  if (least == 0.0) refuse(error);
  if (least == 1.0 && core_->options.non_finite == NonFinite::error) refuse(not_finite);
  if (uses_ > 0) told_ = rounds.all_told();
  return least == 2.0;
}

// The norms come in as sums of squares. Flights come in the order of `number_clips`.
template <Communicator C>
void Completing<C>::scales_from_norms() {
  std::size_t at = 0;
  flights_->each([&](auto& flight) {
    for (double const limit : flight.limits()) {
      double const norm = square_root(norms_[at]);
      norms_[at++] = norm > limit ? limit / norm : 1.0;
    }
  });
}

PARALLAX_STRICT_ARITHMETIC_END

// Each variable under Auto finds its words behind the norms, in the order of seats, and moves rows by the mail of pulls.
template <Communicator C>
void Completing<C>::adapt() {
  auto& core = *core_;
  std::size_t const stride = 1 + clips_ + uses_;
  auto const drive_move = [&](std::string const& name, FunctionRef<bool()> poll) {
    auto const names = [&] { return name; };
    core.waiting.drive("step", [&] { return poll(); }, {core.mail, names});
  };
  auto const all = [&](std::string const& name, bool mine) {
    core.rounds.words.assign(1, mine ? 1.0 : 0.0);
    core.rounds.tell_all("step", [&] { return name; });
    auto const& told = core.rounds.all_told();
    return *std::min_element(told.begin(), told.end()) == 1.0;
  };
  Adapting<C> by{core.topology,  core.options.choice, core.own_costs, core.own_device_costs,
                 core.steps + 1, core.mail.lane(),    drive_move,     all,
                 core.decisions};
  auto const words_of = [&](int rank) { return told_.data() + static_cast<std::size_t>(rank) * stride; };
  std::size_t at = 1 + clips_;
  flights_->seats([&](auto& seat, int) { seat.adapt(by, words_of, at); });
}

// Collective. Does nothing if all flights are agreed on. Else testifies to the first refusal of this rank, of flights started
// earlier or of the step, waits for started flights that are still under way, and throws Refused.
template <Communicator C>
void refuse_unless_unanimous(SessionCore<C>& core, Flight<C>& own) {
  auto& flights = core.flights;
  if (flights.all([](auto& flight) { return flight.unanimous(); })) return;
  Error const* first = nullptr;
  std::string description;
  flights.each([&](auto& flight) {
    if (!first && flight.error()) first = &*flight.error();
    description += (&flight == &own ? "\tstep\n" : "\tstarted earlier\n") + flight.describe();
  });
  Error const error = core.rounds.explain("step", first, description + core.ahead.describe());
  if (!core.rounds.dropped()) core.await_started("step");
  throw Refused{error};
}

// Collective. Takes a step, without the types of its updates: `prepare` fills the seats of `own`, the step's flight. Agrees on
// them together with all started flights, exchanges, and completes. Returns true if the updates were applied. Throws Refused,
// with nothing changed, if any rank refuses. Every flight of the step is closed after any outcome.
template <Communicator C>
bool take_step(SessionCore<C>& core, Flight<C>& own, FunctionRef<void()> prepare) {
  struct Closing {  // after any outcome the updates give back everything they hold
    Flights<C>& flights;
    bool applied = false;
    ~Closing() { flights.close(applied); }
  } closing{core.flights};
  core.flights.add_own(own);
  own.bring(core.ahead);
  prepare();
  if (core.capturing) core.capturing->prepared(own);
  Fingerprint hash = core.begin(Operation::step, own.first_name());
  for (Flight<C> const* const flight : core.flights.started()) {
    hash.add(flight->hash());
    if (auto const* name = flight->gone())
      own.refuse({Errc::misuse, core.topology.rank(), "step", *name, "the variable was destroyed with an update in flight"});
  }
  hash.add(core.ahead.hash());
  own.post(hash.value(), core.waiting.journal().changed());
  bool agreeing = true;
  core.waiting.drive("step",
                     [&] {
                       bool const arrived = core.flights.poll_started(), complete = own.poll();
                       if (agreeing && !own.agreeing()) {
                         agreeing = false;
                         core.waiting.arrive(Phase::exchanging, own.first_clock());
                       }
                       return complete && (arrived || !own.unanimous());
                     },
                     {core.flights, [&] { return core.flights.names(); }});
  refuse_unless_unanimous(core, own);
  core.all_joined = own.idle();
  bool const idle = core.flights.all([](auto& flight) { return flight.idle(); });
  closing.applied = !idle && Completing<C>{core}.complete();
  core.ahead.release(core.mail);
  core.steps += closing.applied;
  return closing.applied;
}

// Collective. Takes, and waits for, a step of these updates, for `Session::step`. Returns true if they were applied.
template <Communicator C, class... Updates>
bool step(SessionCore<C>& core, Updates const&... updates) {
  return core.waiting.guarded("step", [&] {
    core.await_rows("step");
    auto& own = core.pools.template flight<FlightOf<C, Updates...>>(
        core.flight_room(), {SessionCore<C>::control, SessionCore<C>::step_rows, SessionCore<C>::step_dense});
    return take_step(core, own, [&] { own.prepare(false, updates...); });
  });
}

}  // namespace parallax::detail
