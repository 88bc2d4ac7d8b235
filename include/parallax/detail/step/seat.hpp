// The seat of one argument of a step: the ways of its updates, kept from step to step. A flight asks seats for their phases by
// one indirect call for each argument: one update, or a range of a thousand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "parallax/core/fields.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/policy/auto.hpp"
#include "parallax/detail/policy/way_checks.hpp"
#include "parallax/detail/step/options.hpp"
#include "parallax/detail/transfer/agreement/agreement.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/policy/exchange.hpp"
#include "parallax/step/grad.hpp"

namespace parallax::inline v0_2::detail {

// An update without its type: everything compared by ranks before a step, and told by errors. Seats write them as they prepare;
// the flight keeps them, in order of the arguments. Refers to the registration, kept by the way's state.
struct UpdateRecord {
  std::string_view name() const { return registration->name; }
  // Adds the part that all ranks must have in common to a hash. `variable`: its registration, or its state; both have the same
  // to say. The state needs no indirect call if its type is known.
  template <class Variable>
  void add_to(Fingerprint& hash, Variable const& variable) const {
    variable.add_update(hash);
    hash.fold(static_cast<std::uint32_t>(clip) * std::uint64_t{4} + static_cast<std::uint64_t>(rows));
  }

  Registration const* registration;
  // Number of the clip group in the flight, -1 for none.
  int clip;
  // True if the user gave a function of the reduced gradient.
  bool transformed;
  // Naming of the update's rows.
  NamedRows rows;
};

// Parts of a session that flights need, which outlive them. `joined`: this rank has no data any more. `session`: the one with
// the variables that may be updated. `current`: set to the name of a failed phase's variable.
template <Communicator C>
struct FlightRoom {
  Topology<C> const& topology;
  SessionOptions const& options;
  bool const& joined;
  void const* session;
  Traffic& traffic;
  std::string_view& current;
};

// Notes of seats about their updates as they prepare them, and parts shared by the seats of a flight, which owns it.
template <Communicator C>
struct Manifest {
  explicit Manifest(FlightRoom<C> const& its_room) : room{its_room} {}

  FlightRoom<C> const& room;
  Preparing how{};
  Buckets<C> buckets;
  BySpace<C, FindingsIn> findings;
  MeasuredSums<C> measured;
  List<UpdateRecord> records;  // of the updates prepared, in the order of the arguments
  Fingerprint prepared;        // hash of the records as they were then
  std::size_t counts = 0;      // numbers that ride in the agreement
  Divisors divisors;
  bool spreads_early = false;  // sums may reach all ranks before the step completes
  bool overwrites = false;     // a gradient was given in_place
  bool moved = false;          // a gradient lies elsewhere than in the last step, since memory was looked at
};

// Phases of the updates of one argument, as in policy/exchange.hpp, without their types. All but `adapt` are local. Before the
// commit they may throw: this rank refuses. Afterwards they throw on a device only.
template <Communicator C>
class Seat : public Traveller<C> {
 public:
  virtual ~Seat() = default;

  // Clip group of the flight, -1 for none; set by `prepare`, as the next two.
  int clip = -1;
  bool adapts = false;    // holds variables under Auto
  bool measures = false;  // holds variables whose optimizer measures whole tensors

  // Tells, as the flight posts its agreement, the numbers of all ways from place `which` on, and moves `which` past them.
  virtual void tell(Agreement<C>&, std::size_t& which) = 0;
  // Takes, once the ranks agreed, the numbers of other ranks from the same places, and moves `which` past them.
  virtual void hear(Agreement<C>&, std::size_t& which) = 0;
  // Reduces, divides and deposits, way by way, once everything has arrived: the first phase of a step's second half. `number`:
  // of the clip group in the step, -1 for none.
  virtual void reduce(int number) = 0;
  // Sums, by leaders, the deposits of all updates of their variable, once all seats have reduced, and forms the mean.
  virtual void merge() = 0;
  // Calls, once all have merged, the user's functions of reduced gradients.
  virtual void transform() = 0;
  // Gives leaders places for the sums of whole tensors. Called only if something is measured.
  virtual void enrol() = 0;
  // Notes leaders' results for a search: for the squares of clip groups and, with `finite`, for numbers that are not finite.
  virtual void seek(bool finite) = 0;
  // Adds this rank's part of the squared norm of the clip group to `squared`, once findings are there.
  virtual void norm(double& squared) = 0;
  // Returns the error of the first number that is not finite, if any: `in_gradient` of this rank, else in a sum over ranks.
  virtual std::optional<Error> non_finite(bool in_gradient) = 0;
  // Measures, by leaders, whole tensors, after the commit, if `measures`. `scale`: the clip group's factor of gradients.
  virtual void measure(double scale) = 0;
  // Runs, after the commit, the optimizers of leaders, on gradients times `scale`.
  virtual void apply(double scale) = 0;
  // Tells the ways that the step was applied on all ranks.
  virtual void settled() noexcept = 0;
  // Tells the ways that the step was refused or skipped on all ranks.
  virtual void refused() noexcept = 0;
  // Gives back, after `settled` or `refused`, everything that ways hold; the seat is vacant.
  virtual void close() noexcept = 0;

  // Of tables under Auto: see Adaptation. `use_words` returns the count of numbers that this seat's tables send with the
  // commit; `tell_use` appends them to `words`; `now`: seconds of the session's clock. `adapt`, collective, a step's last act,
  // reads the numbers at words_of(rank), from place `at` on, moves `at` past them, chooses policies, and awaits moves.
  virtual std::size_t use_words() = 0;
  virtual void tell_use(List<double>& words, double now) = 0;
  virtual void adapt(Adapting<C>& by, FunctionRef<double const*(int)> words_of, std::size_t& at) = 0;

  // Appends the memory of the seat's dense gradients, for the flight's look at shared memory.
  virtual void list_memory(List<GradientMemory>&) = 0;
};

// The seat of one update or of a range of updates: calls the phases of its ways by their types. Owns the ways, as many as the
// longest range had; a way is made once and prepared again in every step.
template <Communicator C, class Argument>
class SeatOf final : public Seat<C> {
  static constexpr bool ranges = UpdateRange<Argument>;
  using Update = update_in<Argument>;
  using State = typename Update::State;
  using Scalar = typename State::scalar_type;
  using W = way_of<C, Update>;
  static constexpr bool adaptive = is_adaptive<typename State::Exchange>;
  // True if the way has legs of its own; else its `next` is that of WayBase.
  static constexpr bool travels = [] {
    if constexpr (requires { &W::next; })
      return !std::same_as<decltype(&W::next), bool (WayBase<C, Update>::*)(Mails<C>&) const>;
    else return true;
  }();

 public:
  // Sets the manifest, which outlives the seat. By the flight, once, before anything else.
  void attach(Manifest<C>& manifest) { manifest_ = &manifest; }
  // Forgets all preparation. Before a flight is prepared and after it was closed: no way counts as prepared.
  void vacate() {
    if (sought_) each([](auto& way) { way.sought = {}; });
    sought_ = false;
    used_ = 0;
  }

  // Local. Prepares updates until one fails. Throws the ways' errors, misuse (empty, stepped, another session's), non_finite.
  void prepare(Argument const& argument, int number) {
    this->clip = number;
    this->adapts = adaptive;
    this->measures = State::measures;
    if constexpr (ranges) {
      std::size_t made = ways_.size();
      for (auto const& update : argument) {
        if (used_ == made) ways_.emplace_back(), ++made;
        prepare_one(ways_[used_], update);
      }
    } else {
      prepare_one(ways_, argument);
    }
  }

  void tell(Agreement<C>& agreement, std::size_t& which) override {
    each([&](auto& way) {
      if (way.counts() == 0) return;
      way.tell(topology(), [&](int rank, std::size_t count) { agreement.tell(rank, which, count); });
      which += way.counts();
    });
  }
  void hear(Agreement<C>& agreement, std::size_t& which) override {
    each([&](auto& way) {
      if (way.counts() == 0) return;
      way.hear(topology(), [&](int rank) { return static_cast<std::size_t>(agreement.told(rank, which)); });
      which += way.counts();
    });
  }
  bool next(Mails<C>& mail) override {
    bool any = false;
    if constexpr (travels) each([&](auto& way) { any |= way.travelling = way.next(mail); });
    return any;
  }
  void write(Mails<C>& mail) override {
    each([&](auto& way) {
      if (way.travelling) way.write(mail);
    });
  }
  void read(Mails<C>& mail) override {
    each([&](auto& way) {
      if (way.travelling) way.read(mail);
    });
  }
  void reduce(int number) override {
    named([&](auto& way) {
      way.reduce();
      way.divide_by(manifest_->divisors);
      way.deposit(number);
    });
  }
  void merge() override {
    named([](auto& way) { way.merge(); });
  }
  void transform() override {
    named([](auto& way) { way.transform(); });
  }
  void enrol() override {
    each([&](auto& way) {
      if (way.leader()) way.enrol(manifest_->measured);
    });
  }
  void seek(bool finite) override {
    if (!finite && this->clip < 0) return;
    sought_ = true;
    named([&](auto& way) {
      if (!way.leader()) return;
      auto& findings = findings_of(way).of_sums;
      if (way.clip() >= 0) way.sought.squares = findings.seek(Sought::squares, way.clipped(topology()));
      if (finite) way.sought.in_sums = findings.seek(Sought::non_finite, way.result());
    });
  }
  void norm(double& squared) override {
    each([&](auto& way) {
      if (way.leader()) squared += findings_of(way).of_sums.template sum_of_squares<Scalar>(way.sought.squares);
    });
  }
  std::optional<Error> non_finite(bool in_gradient) override {
    std::optional<Error> found;
    each([&](auto& way) {
      auto const place = in_gradient ? way.sought.in_gradient : way.sought.in_sums;
      if (found || place == SoughtOf::none) return;
      auto const& findings = findings_of(way);
      auto const element = (in_gradient ? findings.of_gradients : findings.of_sums).template first_non_finite<Scalar>(place);
      if (element) found = non_finite_error(way, *element, in_gradient);
    });
    return found;
  }
  void measure(double scale) override {
    each([&](auto& way) {
      if (way.leader()) way.measure(scale);
    });
  }
  void apply(double scale) override {
    each([&](auto& way) {
      if (way.leader()) way.apply(scale);
    });
  }
  void settled() noexcept override {
    each([](auto& way) { way.settled(); });
  }
  void refused() noexcept override {
    each([](auto& way) { way.refused(); });
  }
  void close() noexcept override {
    each([](auto& way) { way.close(); });
    vacate();
  }

  std::size_t use_words() override {
    std::size_t sum = 0;
    if constexpr (adaptive) each([&](auto& way) { sum += Adaptation<State>::words(way.state()); });
    return sum;
  }
  void tell_use([[maybe_unused]] List<double>& words, [[maybe_unused]] double now) override {
    if constexpr (adaptive) each([&](auto& way) { Adaptation<State>::tell(way.state(), words, now); });
  }
  void adapt([[maybe_unused]] Adapting<C>& by, [[maybe_unused]] FunctionRef<double const*(int)> words_of,
             [[maybe_unused]] std::size_t& at) override {
    if constexpr (adaptive)
      each([&](auto& way) {
        auto const told = [&words_of, begin = at](int rank) { return words_of(rank) + begin; };
        at += Adaptation<State>::told(way.state());
        if (way.leader()) Adaptation<State>::conclude(way.state(), by, told);
      });
  }

  void list_memory(List<GradientMemory>& memory) override {
    each([&](auto& way) {
      if (auto const own = way.memory(); own.begin) memory.push_back(own);
    });
  }

 private:
  Topology<C> const& topology() const { return manifest_->room.topology; }

  // Checks one update, writes its record, prepares its way, looks at its gradient, and lets it join a bucket. Counts the way as
  // used before `prepare`: so `refused` reaches also a way whose `prepare` has thrown.
  void prepare_one(W& given, Update const& update) {
    if (!update.state) refuse_empty_handle();
    Registration const& known = *update.state->registration();
    if (known.session != manifest_->room.session) known.refuse_stranger(topology().rank(), "step");
    if constexpr (requires { update.plan->stepped; })
      if (update.plan && update.plan->stepped) known.refuse_stepped(topology().rank());
    manifest_->records.push_back({&known, this->clip, transforms<decltype(update.function)>, NamedRows::none});
    UpdateRecord& record = manifest_->records.back();
    ++used_;
    given.prepare(update, topology(), manifest_->how, this->clip);
    with_way(given, [&](auto& way) {
      manifest_->overwrites |= update_overwrites(update);
      manifest_->moved |= way.moved();
      record.rows = way.named();
      record.add_to(manifest_->prepared, *update.state);
      look_at_gradient(way);
      way.join(manifest_->buckets);
      manifest_->spreads_early = manifest_->spreads_early && way.gathers_early();
      manifest_->counts += way.counts();
    });
  }
  // Throws Error (misuse) for an update of an empty handle, without a state; `grad` lets it through, so that all ranks refuse.
  [[noreturn]] void refuse_empty_handle() const {
    throw Error{Errc::misuse, topology().rank(), "step", "", "a handle is empty: nothing was pulled, or it was moved"};
  }
  // Returns true if the gradient was given in_place.
  static bool update_overwrites([[maybe_unused]] Update const& update) {
    if constexpr (requires { update.in_place; }) return update.in_place != nullptr;
    else return false;
  }

  // Looks, under NonFinite::error, at a gradient in the host's memory, and throws its Error; on a device notes it for a search.
  template <class Way>
  void look_at_gradient(Way& way) {
    if (!manifest_->how.finite || manifest_->how.joined) return;
    if constexpr (State::space::host_readable) {
      if (auto const found = first_non_finite(way.gradient())) throw non_finite_error(way, *found, true);
    } else {
      sought_ = true;
      way.sought.in_gradient = findings_of(way).of_gradients.seek(Sought::non_finite, way.gradient());
    }
  }
  // Returns the findings of the flight in the memory space of the variable.
  template <class Way>
  auto& findings_of(Way const&) {
    return manifest_->findings.template of<typename State::space>();
  }
  // Returns an error with variable, element and value, of a gradient of this rank or of a sum over ranks.
  template <class Way>
  PARALLAX_COLD Error non_finite_error(Way& way, NonFiniteElement const& found, bool in_gradient) const {
    return {Errc::non_finite, topology().rank(), "step", way.state().name(),
            std::string{in_gradient ? "of the gradient, " : "of the sum over ranks, "} + way.place_of(found, !in_gradient) +
                " is " + number_text(static_cast<typename State::scalar_type>(found.value))};
  }

  // Calls f with every way that was prepared.
  template <class F>
  void each(F&& f) {
    if constexpr (ranges) {
      W* const end = ways_.data() + used_;
      for (W* way = ways_.data(); way != end; ++way) with_way(*way, f);
    } else {
      if (used_ > 0) with_way(ways_, f);
    }
  }
  // Calls f with every way that was prepared, in phases that may throw: the errors name the variable.
  template <class F>
  void named(F&& f) {
    State const* at = nullptr;
    try {
      each([&](auto& way) {
        at = &way.state();
        f(way);
      });
    } catch (...) {
      if (at) manifest_->room.current = at->name();
      throw;
    }
  }

  Manifest<C>* manifest_ = nullptr;
  std::conditional_t<ranges, List<W>, W> ways_;
  std::size_t used_ = 0;
  bool sought_ = false;  // places in findings, by some way
};

// Seats of one argument. The seats of a clip group's updates share its number.
template <Communicator C, class Argument>
struct SeatsOf {
  using type = SeatOf<C, Argument>;
};
// Seats of a clip group, owned here. The flight gives all of them the group's number, `clip`, in `prepare`.
template <Communicator C, class... Updates>
struct ClippedSeats {
  std::tuple<typename SeatsOf<C, std::remove_cvref_t<Updates>>::type...> seats;

  void prepare(ClipGroup<Updates...> const& clipped, int clip) {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      (std::get<Nth>(seats).prepare(std::get<Nth>(clipped.updates), clip), ...);
    }
    (std::index_sequence_for<Updates...>{});
  }
};
// A clip group is an argument of several seats.
template <Communicator C, class... Updates>
struct SeatsOf<C, ClipGroup<Updates...>> {
  using type = ClippedSeats<C, Updates...>;
};
// Calls f with the seat of an argument, or with each seat of a clip group, groups within it included.
template <Communicator C, class Argument, class F>
void each_seat(SeatOf<C, Argument>& seat, F&& f) {
  f(seat);
}
template <Communicator C, class... Updates, class F>
void each_seat(ClippedSeats<C, Updates...>& clipped, F&& f) {
  std::apply([&](auto&... seats) { (each_seat(seats, f), ...); }, clipped.seats);
}

}  // namespace parallax::detail
