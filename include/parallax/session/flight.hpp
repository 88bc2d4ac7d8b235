// Updates under way together: agreed on in one round, exchanged in shared transfers, brought to a result in phases.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/comm/mail.hpp"
#include "parallax/session/agreement.hpp"
#include "parallax/session/work.hpp"

namespace parallax::detail {

// What a session asks of the updates of one `start` or `step`. One indirect call per phase for those that were started; a
// step calls its own pack directly.
template <Communicator C>
class FlightBase {
 public:
  virtual ~FlightBase() = default;
  virtual bool poll() = 0;                                // true once everything arrived, or was refused
  virtual std::uint64_t hash() const = 0;                 // of the updates as they are now
  virtual void reduce(int group_base) = 0;                // reduce and deposit
  virtual void merge() = 0;
  virtual void transform() = 0;
  virtual void norms(double* squared) = 0;
  virtual bool gather_gradients() = 0;
  virtual void apply(double const* scales) noexcept = 0;  // by clip group
  virtual bool gather_parameters() = 0;
  virtual void withdraw() noexcept = 0;                   // after an abort: waits until no peer reads our memory
  virtual void close() noexcept = 0;
  virtual std::string describe() const = 0;
  virtual std::string names() const = 0;
  virtual std::string const* gone() const = 0;            // the name of a variable that was destroyed, or null
  virtual int waiting_for() const = 0;

  bool unanimous() const { return unanimous_; }
  bool busy() const { return busy_; }
  std::optional<Error> const& error() const { return error_; }
  std::string const& current() const { return current_; }
  std::vector<double> const& limits() const { return limits_; }  // max_norm by clip group

 protected:
  bool busy_ = false, unanimous_ = true;
  std::optional<Error> error_;  // this rank's refusal
  std::vector<double> limits_;
  std::string current_;  // the variable being worked on, for errors
};

// The channels of a flight. The agreement of a step travels on the channel of all other agreements, so that ranks which
// call different operations meet there and find out.
struct FlightChannels {
  int agreement, rows, dense;
};

// Where a given argument of `step` is kept from step to step: an update as one Work, a range of updates as many, a clip group
// as its updates with the group's number.
template <Communicator C, class Argument>
struct Seat {
  Work<C, Argument> work;
  std::size_t used = 1;

  template <class Prepare>
  void prepare(Argument const& update, int group, Prepare&& prepare) { prepare(work, update, group); }
  template <class F>
  void each(F&& f) { f(work); }
};

template <Communicator C, UpdateRange Range>
struct Seat<C, Range> {
  std::vector<Work<C, std::ranges::range_value_t<Range>>> works;
  std::size_t used = 0;

  template <class Prepare>
  void prepare(Range const& updates, int group, Prepare&& prepare) {
    used = 0;
    for (auto const& update : updates) {
      if (used == works.size()) works.emplace_back();
      prepare(works[used++], update, group);
    }
  }
  template <class F>
  void each(F&& f) {
    for (std::size_t i = 0; i < used; ++i) f(works[i]);
  }
};

template <Communicator C, class... Updates>
struct Seat<C, ClipGroup<Updates...>> {
  std::tuple<Seat<C, std::remove_cvref_t<Updates>>...> seats;

  template <class Prepare>
  void prepare(ClipGroup<Updates...> const& clip, int group, Prepare&& prepare) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (std::get<I>(seats).prepare(std::get<I>(clip.updates), group, prepare), ...);
    }(std::index_sequence_for<Updates...>{});
  }
  template <class F>
  void each(F&& f) {
    std::apply([&](auto&... seat) { (seat.each(f), ...); }, seats);
  }
};

template <class Argument>
inline constexpr bool is_clip_group = false;
template <class... Updates>
inline constexpr bool is_clip_group<ClipGroup<Updates...>> = true;

template <Communicator C, class... Arguments>
class Flight final : public FlightBase<C> {
  using Base = FlightBase<C>;
  using Base::busy_, Base::unanimous_, Base::error_, Base::limits_, Base::current_;

 public:
  // `session` is the one whose variables may be updated.
  Flight(Topology<C> const& topology, FusionOptions const& fusion, void const* session, FlightChannels route,
         Traffic& traffic)
      : topology_{&topology},
        fusion_{&fusion},
        session_{session},
        agreement_{topology, route.agreement, traffic},
        mail_{topology, route.rows, traffic},
        dense_{topology, route.dense, traffic} {}

  // Local. Checks and prepares all updates; what goes wrong is kept for the agreement. `keep`: the updates outlive the call,
  // and what can be done before the step completes them is.
  void prepare(bool keep, Arguments const&... arguments) {
    busy_ = true;
    error_.reset();
    limits_.clear();
    buckets([](auto& bucket, bool) { bucket.clear(); });
    prepared_ = 0;
    try {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (seat(std::get<I>(seats_), arguments, keep), ...);
      }(std::index_sequence_for<Arguments...>{});
      works([&](auto& work) { work.join(buckets_); });
      buckets([&](auto& bucket, bool sharded) { bucket.close(*topology_, *fusion_, sharded); });
      early_ = keep;
      works([&](auto& work) { early_ = early_ && work.gathers_early(); });
      agreement_.reserve(counts());
    } catch (...) {
      error_ = current_error(topology_->rank(), "step", current_);
    }
  }

  // Local. This rank refuses what it has prepared.
  void refuse(Error error) {
    if (!error_) error_ = std::move(error);
  }

  // The agreement about these updates begins. `context` is what else the ranks must have in common.
  void post(std::uint64_t context) {
    Fingerprint hash;
    hash.add(context);
    hash.add(this->hash());
    agreement_.begin(hash.value(), !error_, error_ ? 0 : counts());
    std::size_t which = 0;
    if (!error_) works([&](auto& work) {
      if (work.counts() == 0) return;
      work.tell(*topology_, [&](int rank, std::size_t count) { agreement_.tell(rank, which, count); });
      which += work.counts();
    });
    agreement_.post();
    stage_ = Stage::agreeing;
  }

  bool poll() override {
    if (stage_ == Stage::agreeing) {
      if (!agreement_.poll()) return false;
      unanimous_ = agreement_.unanimous();
      stage_ = unanimous_ ? Stage::exchanging : Stage::arrived;
      if (unanimous_) depart();
    }
    if (stage_ == Stage::exchanging) {
      bool const rows = carried_ || (carried_ = carry(mail_, [&](auto&& f) { works([&](auto& w) { w.visit_journey(f); }); }));
      bool const reduced = reduced_ || (reduced_ = dense_phase([](auto& bucket, auto& lane) { return bucket.reduce(lane); }));
      bool const dense = reduced && (gathered_ || (gathered_ = gather_sums()));
      if (rows && dense) stage_ = Stage::arrived;
    }
    return stage_ == Stage::arrived;
  }

  std::uint64_t hash() const override {
    Fingerprint hash;
    if (!error_) works([&](auto& work) { hash.add(hash_of(work)); });
    for (double const limit : limits_) hash.add(std::bit_cast<std::uint64_t>(limit));
    hash.add(early_);
    return hash.value();
  }

  void reduce(int group_base) override {
    works([&](auto& work) {
      current_ = work.state().name();
      work.reduce();
      work.deposit(work.group() < 0 ? -1 : group_base + work.group());
    });
  }
  void merge() override {
    works([&](auto& work) {
      current_ = work.state().name();
      work.merge();
    });
  }
  void transform() override {
    works([&](auto& work) {
      current_ = work.state().name();
      work.transform();
    });
  }
  void norms(double* squared) override {
    works([&](auto& work) {
      if (work.leader() && work.group() >= 0) squared[work.group()] += work.norm_squared(*topology_);
    });
  }
  bool gather_gradients() override {
    return dense_phase([](auto& bucket, auto& lane) { return bucket.gather_gradients(lane); }, Which::replicated);
  }
  void apply(double const* scales) noexcept override {
    works([&](auto& work) {
      if (work.leader()) work.apply(work.group() < 0 ? 1.0 : scales[work.group()]);
    });
  }
  bool gather_parameters() override {
    return dense_phase([](auto& bucket, auto& lane) { return bucket.gather_parameters(lane); }, Which::sharded);
  }
  void withdraw() noexcept override {
    agreement_.withdraw();
    mail_.lane().withdraw();
    dense_.withdraw();
  }
  void close() noexcept override {
    works([](auto& work) { work.close(); });
    buckets([](auto& bucket, bool) { bucket.drop(); });
    busy_ = false;
    stage_ = Stage::arrived;
  }

  std::string describe() const override {
    std::string lines;
    if (error_) return lines;
    works([&](auto& work) {
      lines += work.state().name() + "\t" + work.state().registration()->signature + ", " + work.state().update_text();
      if constexpr (requires { work.plan_known(); }) lines += work.plan_known() ? ", rows of a pull" : ", rows by index";
      if (work.transformed) lines += ", transformed";
      if (work.group() >= 0) lines += ", clipped to " + number_text(limits_[static_cast<std::size_t>(work.group())]);
      lines += '\n';
    });
    return lines;
  }
  std::string names() const override {
    std::string list;
    works([&](auto& work) { list += (list.empty() ? "" : ", ") + work.state().name(); });
    return list;
  }
  std::string const* gone() const override {
    std::string const* name = nullptr;
    works([&](auto& work) {
      if (work.state().registration()->gone) name = &work.state().name();
    });
    return name;
  }
  int waiting_for() const override {
    if (agreement_.in_flight()) return agreement_.waiting_for();
    int const rank = mail_.lane().waiting_for();
    return rank >= 0 ? rank : dense_.waiting_for();
  }

 private:
  enum class Stage : unsigned char { agreeing, exchanging, arrived };
  enum class Which : unsigned char { all, replicated, sharded };

  template <class S, class Argument>
  void seat(S& seat, Argument const& argument, bool keep) {
    int group = -1;
    if constexpr (is_clip_group<Argument>) {
      group = static_cast<int>(limits_.size());
      limits_.push_back(argument.max_norm);
    }
    seat.prepare(argument, group, [&](auto& work, auto const& update, int in_group) {
      current_ = update.state->name();
      if (update.state->registration()->session != session_)
        throw Error{Errc::misuse, topology_->rank(), "step", current_, "the variable belongs to another session"};
      ++prepared_;
      work.prepare(update, *topology_, keep, in_group);
    });
  }

  std::size_t counts() const {
    std::size_t sum = 0;
    works([&](auto& work) { sum += work.counts(); });
    return sum;
  }

  // Calls f with every work that was prepared, in the order of the arguments.
  template <class F>
  void works(F&& f) const {
    std::size_t seen = 0;
    std::apply([&](auto&... seat) {
      (seat.each([&](auto& work) { if (seen++ < prepared_) f(work); }), ...);
    }, seats_);
  }
  template <class F>
  void buckets(F&& f) {
    f(buckets_.replicated_float, false);
    f(buckets_.sharded_float, true);
    f(buckets_.replicated_double, false);
    f(buckets_.sharded_double, true);
  }

  template <class W>
  std::uint64_t hash_of(W const& work) const {
    Fingerprint hash;
    hash.add(work.state().update_hash());
    hash.add(static_cast<std::uint64_t>(work.group() + 1));
    if constexpr (requires { work.plan_known(); }) hash.add(work.plan_known() ? 2 : 1);
    return hash.value();
  }

  void depart() {
    std::size_t which = 0;
    works([&](auto& work) {
      if (work.counts() == 0) return;
      work.hear(*topology_, [&](int rank) { return static_cast<std::size_t>(agreement_.told(rank, which)); });
      which += work.counts();
    });
    carried_ = reduced_ = false;
    gathered_ = !early_;
    bucket_ = 0;
  }

  bool gather_sums() {
    return dense_phase([](auto& bucket, auto& lane) { return bucket.gather_sums(lane); }, Which::replicated);
  }

  // The buckets take turns on the dense lane; true once all have passed.
  template <class Phase>
  bool dense_phase(Phase&& phase, Which which = Which::all) {
    std::size_t number = 0;
    bool done = true;
    buckets([&](auto& bucket, bool sharded) {
      bool const mine = which == Which::all || (which == Which::sharded) == sharded;
      if (number++ != bucket_ || !done) return;
      done = !mine || bucket.empty() || phase(bucket, dense_);
      if (done) ++bucket_;
    });
    if (done) bucket_ = 0;
    return done;
  }

  Topology<C> const* topology_;
  FusionOptions const* fusion_;
  void const* session_;
  Agreement<C> agreement_;
  Mail<C> mail_;
  Lane<C> dense_;
  Buckets<C> buckets_;
  mutable std::tuple<Seat<C, Arguments>...> seats_;
  std::size_t prepared_ = 0, bucket_ = 0;
  Stage stage_ = Stage::arrived;
  bool carried_ = true, reduced_ = true, gathered_ = true, early_ = false;
};

}  // namespace parallax::detail
