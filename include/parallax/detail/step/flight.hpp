// A flight: updates under way together, agreed on in one round and exchanged in shared transfers. `Session::start` and
// `Session::step` fill one each; the step asks its seats for their phases.
// The room `step` brings the updates of a step through their phases, whatever their types and policies.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/math.hpp"
#include "parallax/detail/pull/ahead.hpp"
#include "parallax/detail/step/dense_exchange.hpp"
#include "parallax/detail/step/options.hpp"
#include "parallax/detail/step/overwritten.hpp"
#include "parallax/detail/step/seat.hpp"
#include "parallax/detail/transfer/mail.hpp"

namespace parallax::inline v0_2::detail {

// Channels of a flight, by number: of its agreement, its rows and its dense gradients. The agreement of a step travels on the
// channel of all other agreements: ranks in different operations meet there and find out.
struct FlightChannels {
  int agreement, rows, dense;
};

// Updates of one `start` or of one `step`, without their types: their common parts, and the order of their phases up to the
// commit. The pool of a session owns it, from step to step; it refers to the session's core by a FlightRoom. `prepare` of
// FlightOf begins it, `close` ends it. Sums and rows travel as soon as the ranks agreed, and enter variables only in the
// completing step. Polled functions wait for nothing, and throw the errors of a Request's `test`.
template <Communicator C>
class Flight {
 public:
  // Local. Makes, for the pool, a free flight, which refers to the session by `room` and travels on the channels of `route`.
  Flight(FlightRoom<C> const& room, FlightChannels route);
  Flight(Flight&&) = delete;
  virtual ~Flight() = default;

  // Calls f(seat, number of its clip group in the step or -1) for every argument; for none if no rank has data any more.
  template <class F>
  void seats(F&& f) const {
    if (stage_ == Stage::idle) return;
    for (Seat<C>* const seat : seats_) f(*seat, seat->clip < 0 ? -1 : first_clip_ + seat->clip);
  }
  // Local. Sets the number of its first clip group in the step; returns the number for the next flight.
  int number_clips(int first) {
    first_clip_ = first;
    return first + static_cast<int>(limits_.size());
  }

  // Collective. Posts the agreement about these updates, with this rank's refusal and the number of keys it will send; waits
  // for nothing. `context`: a hash of all else that ranks must have in common. `clock`: ns of this rank's clock.
  void post(std::uint64_t context, std::int64_t clock);

  // Lets the flight progress; returns true once everything arrived, or was refused. Collective in the order of its channels.
  bool poll();
  // Collective, polled after the commit. Returns true once the sums of replicated variables are everywhere.
  bool gather_gradients() { return dense_.gather_gradients(); }
  // Collective, polled after the optimizers. Returns true once the parameters of sharded dense variables are everywhere.
  bool gather_parameters() { return dense_.gather_parameters(); }

  // Local, once everything is merged. Begins to look for the norms of clip groups and, with `finite`, for numbers that are not
  // finite. Measures of whole tensors get their place. May throw. The findings can be read once `findings_arrived` is true.
  void seek(bool finite) {
    manifest_.measured.clear();
    if (detail::any_of(seats_, [](Seat<C> const* seat) { return seat->measures; })) {
      seats([](auto& seat, int) { seat.enrol(); });
      manifest_.measured.open(room_.topology);
    }
    if (limits_.empty() && !finite) return;
    seats([&](auto& seat, int) { seat.seek(finite); });
    start_looking(false);
  }
  // Local. Returns true if the findings can be read: at once in the host's memory, on a device once its queue is that far.
  bool findings_arrived() {
    bool all = true;
    manifest_.findings.each(
        [&](auto& findings) { all = all && findings.of_gradients.arrived() && findings.of_sums.arrived(); });
    return all;
  }
  // Local. Returns the error of the first number that is not finite, if any: `in_gradient` of this rank, else in a sum.
  std::optional<Error> non_finite(bool in_gradient) {
    std::optional<Error> found;
    seats([&](auto& seat, int) {
      if (!found) found = seat.non_finite(in_gradient);
    });
    return found;
  }
  // Returns true if owners measure for other ranks.
  bool shares_measures() const { return manifest_.measured.shared(); }
  // Collective, polled. Returns true once this rank has all sums measured by optimizers.
  bool gather_measures() { return manifest_.measured.gather(dense_.lane()); }

  // Local, before `prepare`. Lets the ids of these fetches, which outlive the flight, travel with the updates.
  void bring(Ahead<C>& ahead) { ahead_ = &ahead; }
  // Local. Refuses, on this rank, the updates prepared, by an earlier error if there is one.
  void refuse(Error error) {
    if (!error_) error_ = std::move(error);
  }
  // Local, the last call of a step. Gives back everything that the updates hold, and lets the pool use the flight again.
  // `applied`: by the step that completed them.
  void close(bool applied) noexcept {
    for (Seat<C>* const seat : seats_) {
      applied&& stage_ != Stage::idle ? seat->settled() : seat->refused();
      seat->close();
    }
    for (auto& bucket : manifest_.buckets.all()) bucket->drop();
    stage_ = Stage::free;
  }
  // Returns, after an abort, once no peer reads our memory.
  void withdraw() noexcept {
    agreement_.withdraw();
    mail_.withdraw();
    dense_.lane().withdraw();
  }

  // Sets the priority. By `start`, before the agreement, which includes it.
  void set_priority(Priority priority) { priority_ = priority.value; }
  int priority() const { return priority_; }
  // Returns true if the agreement is under way.
  bool agreeing() const { return stage_ == Stage::agreeing; }
  // Returns rank 0's clock as it was when that rank posted the agreement. Valid once the agreement is over.
  ToldClock first_clock() const { return agreement_.first_clock(); }
  // Returns true if all ranks have agreed and something is still on its way.
  bool exchanging() const { return stage_ == Stage::exchanging; }
  // Returns false once a rank has refused these updates, or the ranks have found a difference.
  bool unanimous() const { return stage_ != Stage::refused; }
  // Returns true if no rank has data: then nothing is exchanged, and nothing applied.
  bool idle() const { return stage_ == Stage::idle; }
  // Returns true if a step or start holds it, and the pool must not hand it out.
  bool busy() const { return stage_ != Stage::free; }
  bool adapts() const {  // variables under Auto are among those it updates
    return detail::any_of(seats_, [](Seat<C> const* seat) { return seat->adapts; });
  }
  // Returns this rank's refusal, if it has one; valid until the flight is prepared again.
  std::optional<Error> const& error() const { return error_; }
  List<double> const& limits() const { return limits_; }  // max_norm by clip group
  // Returns the records of the updates, in the order of the arguments. Valid until the flight is prepared again.
  List<UpdateRecord> const& records() const { return manifest_.records; }

  // Returns a hash of the present updates. Ranks compare it of a started flight, as a step completes it.
  std::uint64_t hash() const {
    Fingerprint updates;
    if (!error_)
      for (UpdateRecord const& record : manifest_.records) record.add_to(updates, *record.registration);
    return hash_with(updates);
  }
  // Returns a line for each update, for the error of ranks that differ; nothing if this rank refuses.
  std::string describe() const;
  // Returns the names of all variables, with commas, for errors and reports.
  std::string names() const;
  // Returns the first variable's name, a view of its own, for the journal; empty without updates.
  std::string_view first_name() const {
    return manifest_.records.empty() ? std::string_view{} : manifest_.records.front().registration->name;
  }
  // Returns the name of a variable updated here that was destroyed, or null. Valid until the flight is closed.
  std::string const* gone() const {
    for (UpdateRecord const& record : manifest_.records)
      if (record.registration->gone) return &record.registration->name;
    return nullptr;
  }
  // Returns a rank waited for, or -1: by the agreement, else by the rows, else by the dense gradients.
  int waiting_for() const {
    if (agreement_.in_flight()) return agreement_.waiting_for();
    int const rank = mail_.waiting_for();
    return rank >= 0 ? rank : dense_.lane().waiting_for();
  }

 protected:
  // Local. Checks and prepares all updates, and keeps an error for the agreement. `keep`: the updates outlive the call, and
  // everything possible before the completing step is done. `fill` prepares the seats.
  void prepare_seats(bool keep, FunctionRef<void()> fill);

  // Returns the manifest, owned here, and written by the seats of a FlightOf as they prepare.
  Manifest<C>& manifest() { return manifest_; }
  // Returns the list of seats. Filled once, by the constructor of FlightOf.
  List<Seat<C>*>& seat_list() { return seats_; }
  // Returns the number of a new clip group of this flight. Throws Error (invalid_argument) for a bound below 0 or not finite.
  int open_clip(double max_norm);

 private:
  // The state of a flight. `free`: nobody uses it. `refused`: by a rank, or for a difference among ranks. `idle`: no rank has
  // data any more, and nothing is exchanged. `arrived`: the exchange is over.
  enum class Stage : unsigned char { free, prepared, agreeing, refused, idle, exchanging, arrived };

  // Forgets the updates of the last use; their memory stays allocated.
  void clear() {
    stage_ = Stage::prepared;
    priority_ = 0;
    error_.reset();
    limits_.clear();
    manifest_.records.clear();
    manifest_.prepared = {};
    manifest_.counts = 0;
    manifest_.overwrites = false;
    for (auto& bucket : manifest_.buckets.all()) bucket->clear();
    manifest_.findings.each([](auto& findings) { findings.of_gradients.clear(), findings.of_sums.clear(); });
  }
  // Lays the buckets out once all updates have joined them, and decides when ranks may have their sums.
  void close_buckets() {
    Spread const spread = !manifest_.spreads_early ? Spread::later : limits_.empty() ? Spread::in_place : Spread::apart;
    for (auto& bucket : manifest_.buckets.all()) bucket->close(room_.topology, room_.options.fusion, spread);
  }
  // Throws Error (invalid_argument) if a gradient given in_place shares memory with another. Looks only if gradients have
  // moved.
  void refuse_shared_memory();

  // Starts the search for findings in every space: in gradients of this rank, or in sums.
  void start_looking(bool at_gradients) {
    manifest_.findings.each([&]<class In>(In& findings) {
      using Space = typename In::space;
      (at_gradients ? findings.of_gradients : findings.of_sums).start(RowOps<Space>{queue_of<Space>(room_.topology.world())});
    });
  }
  // Returns `hash` with the flight's own part: limits, priority, and an early or late spread of sums.
  std::uint64_t hash_with(Fingerprint hash) const {
    for (double const limit : limits_) hash.add(std::bit_cast<std::uint64_t>(limit));
    hash.add(manifest_.spreads_early);
    hash.add(static_cast<std::uint64_t>(priority_));
    return hash.value();
  }

  // Local. Chooses the next stage after the agreement, unanimous or not, and takes from it the counts of rows sent by others.
  void agreed();
  // Carries the journeys of all seats together, leg by leg, and with them the ids named ahead; waits for nothing.
  void carry_rows() {
    bool const climbs = ahead_ && agreement_.ahead();
    travellers_.assign(seats_.begin(), seats_.end());
    if (climbs) ahead_->take_along(travellers_);
    carried_ = carry<C>(mail_, travellers_);
    if (carried_ && climbs) ahead_->arrive();
  }

  FlightRoom<C> room_;
  Manifest<C> manifest_{room_};
  Agreement<C> agreement_;
  Mails<C> mail_;
  DenseExchange<C> dense_;
  List<Traveller<C>*> travellers_;  // scratch of `carry_rows`
  List<Seat<C>*> seats_;            // by argument; the seats of a clip group one after the other
  List<GradientMemory> gradient_memory_;
  std::size_t looked_at_ = 0;  // updates, at the last look that found memory of their own for all
  List<double> limits_;
  std::optional<Error> error_;  // this rank's refusal
  Ahead<C>* ahead_ = nullptr;
  int priority_ = 0, first_clip_ = 0;
  Stage stage_ = Stage::free;
  bool carried_ = true;
};

template <Communicator C>
Flight<C>::Flight(FlightRoom<C> const& room, FlightChannels route)
    : room_{room},
      agreement_{room.topology, route.agreement, room.traffic},
      mail_{room.topology, route.rows, room.traffic},
      dense_{room.topology, route.dense, room.traffic, manifest_.buckets} {}

template <Communicator C>
void Flight<C>::post(std::uint64_t context, std::int64_t clock) {
  bool const refused = error_.has_value();
  Fingerprint hash;
  hash.add(context);
  hash.add(hash_with(refused ? Fingerprint{} : manifest_.prepared));
  agreement_.begin(hash.value(), !refused, room_.joined, refused ? 0 : manifest_.counts, !ahead_ || ahead_->planned());
  stage_ = Stage::agreeing;
  std::size_t which = 0;
  if (!refused) {
    if (manifest_.counts > 0) seats([&](auto& seat, int) { seat.tell(agreement_, which); });
    if (ahead_) ahead_->tell(agreement_, which);
  }
  agreement_.post(clock);
}

template <Communicator C>
bool Flight<C>::poll() {
  if (stage_ == Stage::agreeing && agreement_.poll()) agreed();
  if (stage_ == Stage::exchanging) {
    if (!carried_) carry_rows();
    bool const dense = dense_.exchange();
    if (carried_ && dense) stage_ = Stage::arrived;
  }
  return stage_ != Stage::agreeing && stage_ != Stage::exchanging;
}

template <Communicator C>
std::string Flight<C>::describe() const {
  std::string lines;
  if (error_) return lines;
  for (UpdateRecord const& record : manifest_.records) {
    Registration const& known = *record.registration;
    std::string more;
    if (record.rows == NamedRows::of_a_pull) more += ", rows of a pull";
    if (record.rows == NamedRows::by_index) more += ", rows by index";
    if (record.transformed) more += ", transformed";
    if (record.clip >= 0) append(more, {", clipped to ", number_text(limits_[static_cast<std::size_t>(record.clip)])});
    if (priority_ != 0) append(more, {", priority ", priority_});
    lines += known.update_lines(more);
  }
  return lines;
}

template <Communicator C>
std::string Flight<C>::names() const {
  std::string list;
  for (UpdateRecord const& record : manifest_.records) append(list, {list.empty() ? "" : ", ", record.registration->name});
  return list;
}

template <Communicator C>
void Flight<C>::prepare_seats(bool keep, FunctionRef<void()> fill) {
  bool const finite = room_.options.non_finite == NonFinite::error;
  clear();
  manifest_.how = {keep, room_.joined, finite};
  manifest_.spreads_early = keep || room_.topology.spreads();
  try {
    fill();
    if (manifest_.overwrites) refuse_shared_memory();
    if (ahead_) manifest_.counts += ahead_->counts();
    close_buckets();
    if (finite) start_looking(true);
    agreement_.reserve(manifest_.counts);
  } catch (...) {
    auto const& records = manifest_.records;
    error_ = current_error(room_.topology.rank(), "step", records.empty() ? std::string_view{} : records.back().name());
  }
}

template <Communicator C>
int Flight<C>::open_clip(double max_norm) {
  if (!is_not_negative(max_norm))
    throw Error{Errc::invalid_argument, room_.topology.rank(), "step", "",
                joined({"the bound of clip_by_global_norm is ", max_norm, ", and has to be a finite number, 0 or more"})};
  limits_.push_back(max_norm);
  return static_cast<int>(limits_.size()) - 1;
}

template <Communicator C>
void Flight<C>::refuse_shared_memory() {
  if (!manifest_.moved && looked_at_ == manifest_.records.size()) return;
  gradient_memory_.clear();
  seats([&](auto& seat, int) { seat.list_memory(gradient_memory_); });
  auto const shared = shared_memory(gradient_memory_);
  if (!shared) {
    manifest_.moved = false;
    looked_at_ = manifest_.records.size();
    return;
  }
  throw Error{
      Errc::invalid_argument, room_.topology.rank(), "step", shared.overwritten->variable,
      joined({"its gradient was given in_place, and the gradient of ", shared.other->variable, " shares memory with it"})};
}

template <Communicator C>
void Flight<C>::agreed() {
  int const active = agreement_.active();
  manifest_.divisors = {room_.options.join_divisor == JoinDivisor::active ? active : room_.topology.size(), active};
  if (!agreement_.unanimous()) {
    stage_ = Stage::refused;
  } else if (active == 0) {
    for (auto& bucket : manifest_.buckets.all()) bucket->clear();
    stage_ = Stage::idle;
  } else {
    stage_ = Stage::exchanging;
    carried_ = false;
    dense_.begin(manifest_.spreads_early);
    std::size_t which = 0;
    if (manifest_.counts > 0) seats([&](auto& seat, int) { seat.hear(agreement_, which); });
    if (ahead_ && agreement_.ahead()) ahead_->climb(agreement_, which, room_.topology);
  }
}

// A flight with the seats of arguments of these types. Only their preparation depends on a step's list of arguments, and is
// instantiated for each list; all else is Flight's. Owns the seats.
template <Communicator C, class... Arguments>
class FlightOf final : public Flight<C> {
 public:
  // Local. Makes, for the pool, a free flight and its seats, which keep their place as long as the flight. May throw.
  FlightOf(FlightRoom<C> const& room, FlightChannels route) : Flight<C>{room, route} {
    each([&](auto& seat) {
      seat.attach(this->manifest());
      this->seat_list().push_back(&seat);
    });
  }

  // Local. Prepares the updates, and keeps an error for the agreement to refuse. By `step` and, with `keep`, by `start`.
  void prepare(bool keep, Arguments const&... arguments) {
    each([](auto& seat) { seat.vacate(); });
    this->prepare_seats(keep, [&] {
      [&]<std::size_t... Nth>(std::index_sequence<Nth...>) { (take(std::get<Nth>(seats_), arguments), ...); }
      (std::index_sequence_for<Arguments...>{});
    });
  }

 private:
  // Opens a clip group for an argument that is one, and has its seats prepare it.
  template <class Seats, class Argument>
  void take(Seats& seats, Argument const& argument) {
    int clip = -1;
    if constexpr (requires { argument.max_norm; }) clip = this->open_clip(argument.max_norm);
    seats.prepare(argument, clip);
  }
  template <class F>
  void each(F&& f) {
    std::apply([&](auto&... seats) { (each_seat(seats, f), ...); }, seats_);
  }

  std::tuple<typename SeatsOf<C, Arguments>::type...> seats_;
};

}  // namespace parallax::detail
