// Updates under way together: agreed on in one round, exchanged in shared transfers, brought to a result in phases.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/comm/mail.hpp"
#include "parallax/session/adaptive_work.hpp"
#include "parallax/session/agreement.hpp"
#include "parallax/session/dense_work.hpp"
#include "parallax/session/fetch.hpp"
#include "parallax/session/seat.hpp"

namespace parallax {

// What a step does about a gradient that holds an infinity or what is not a number, after it was summed over ranks (where the
// vendor sums, on every rank alike). `propagate`: nothing is looked at. `skip_step`: no rank updates anything, `step` returns
// false. `error`: gradients are looked at before they are sent, too, so that the rank that brought it is named; nothing is
// changed.
enum class NonFinite : unsigned char { propagate, skip_step, error };

// What a mean is over while some ranks have joined: all ranks of the session, or those that still have data.
enum class JoinDivisor : unsigned char { world, active };

// Alike on all ranks, which is checked. May be changed between operations.
struct SessionOptions {
  FusionOptions fusion = {};
  NonFinite non_finite = NonFinite::propagate;
  JoinDivisor join_divisor = JoinDivisor::world;
  AutoOptions choice = {};  // of variables under Auto
};

namespace detail {

// Where a gradient is not finite: in what this rank was given, or in a sum over ranks.
struct NonFiniteFound {
  Error error;
  bool in_gradient;
};

// What can be said of an update without its type: all that ranks compare, and that errors tell.
struct UpdateRecord {
  enum class Rows : unsigned char { none, by_index, of_a_pull };

  std::string_view name() const { return registration->name; }
  // `variable`: its registration, or its state.
  template <class Variable>
  void add_to(Fingerprint& hash, Variable const& variable) const {
    variable.add_update(hash);
    hash.fold(static_cast<std::uint32_t>(group) * std::uint64_t{4} + static_cast<std::uint64_t>(rows));
  }

  Registration const* registration;
  int group;  // of those clipped together, -1 for none
  bool transformed;
  Rows rows;
};

// The channels of a flight. The agreement of a step travels on the channel of all other agreements, so that ranks which
// call different operations meet there and find out.
struct FlightChannels {
  int agreement, rows, dense;
};

// A flight without the types of its updates. What was started is asked for its phases by one indirect call each; a step calls
// its own pack directly.
template <Communicator C>
class FlightBase {
 public:
  // `session` is the one whose variables may be updated; `joined` whether this rank has no data any more; `current` names the
  // variable at which a phase failed.
  FlightBase(Topology<C> const& topology, SessionOptions const& options, bool const& joined, void const* session,
             FlightChannels route, Traffic& traffic, std::string_view& current)
      : topology_{&topology},
        options_{&options},
        joined_{&joined},
        session_{session},
        current_{&current},
        agreement_{topology, route.agreement, traffic},
        mail_{topology, route.rows, traffic},
        dense_{topology, route.dense, traffic} {}
  virtual ~FlightBase() = default;

  virtual bool poll() = 0;  // true once everything arrived, or was refused
  virtual void reduce(int group_base) = 0;  // reduce and deposit
  virtual void merge() = 0;
  virtual void transform() = 0;
  // Begins to look for the norms of clip groups and, if `finite` is asked for, for what is not. The next two are asked once all
  // of it is `found`.
  virtual void seek(bool finite) = 0;
  virtual void norms(double* squared) = 0;
  virtual std::optional<NonFiniteFound> non_finite() = 0;
  virtual void measure(double const* scales) = 0;
  virtual void apply(double const* scales) = 0;  // by clip group; throws where a device fails, which ends the session
  // What is told of the variables with the commit: how many words, and, by a rank that has them, which.
  virtual std::size_t use_words() = 0;
  virtual void tell_use(std::vector<double>& words, double now) = 0;
  // Collective, the last act of a step: concludes from words[rank][at], …, which it moves past.
  virtual void adapt(Adapting<C>& by, FunctionRef<double const*(int)> words_of, std::size_t& at) = 0;
  virtual void close() noexcept = 0;

  bool gather_gradients() {
    return dense_phase(Which::replicated, [](auto& bucket, auto& lane) { return bucket.gather_gradients(lane); });
  }
  bool gather_parameters() {
    return dense_phase(Which::sharded, [](auto& bucket, auto& lane) { return bucket.gather_parameters(lane); });
  }

  bool found() {
    bool all = true;
    findings_.each([&](auto& findings) {
      all = all && findings.of_gradients.arrived() && findings.of_sums.arrived();
    });
    return all;
  }
  // Whether owners measure what others must know.
  bool shares_measures() {
    bool any = false;
    measured_.each([&](auto& sums) { any = any || !sums.sharded.empty(); });
    return any;
  }
  bool gather_measures() {
    bool all = true;
    measured_.each([&](auto& sums) { all = all && sums.sharded.gather(dense_); });
    return all;
  }

  // Local, before `prepare`. The ids of these fetches travel with the updates.
  void bring(Ahead<C>& ahead) { ahead_ = &ahead; }

  // Local. This rank refuses what it has prepared.
  void refuse(Error error) {
    if (!error_) error_ = std::move(error);
  }
  // After an abort: waits until no peer reads our memory.
  void withdraw() noexcept {
    agreement_.withdraw();
    mail_.withdraw();
    dense_.withdraw();
  }

  void set_priority(Priority priority) { priority_ = priority.value; }
  int priority() const { return priority_; }
  bool exchanging() const { return stage_ == Stage::exchanging; }
  bool adapts() const { return adapts_; }  // variables under Auto are among those it updates
  bool agreeing() const { return stage_ == Stage::agreeing; }
  bool unanimous() const { return unanimous_; }
  bool idle() const { return idle_; }  // agreed on by ranks that have all joined: nothing is exchanged
  bool busy() const { return busy_; }
  std::optional<Error> const& error() const { return error_; }
  std::vector<double> const& limits() const { return limits_; }  // max_norm by clip group

  // Of the updates as they are now.
  std::uint64_t hash() const {
    Fingerprint updates;
    if (!error_)
      for (UpdateRecord const& record : records_) record.add_to(updates, *record.registration);
    return hash_with(updates);
  }
  std::string describe() const {
    std::string lines;
    if (error_) return lines;
    for (UpdateRecord const& record : records_) {
      Registration const& known = *record.registration;
      lines += known.name + "\t" + known.signature + ", " + known.update_text(known.state);
      if (record.rows == UpdateRecord::Rows::of_a_pull) lines += ", rows of a pull";
      if (record.rows == UpdateRecord::Rows::by_index) lines += ", rows by index";
      if (record.transformed) lines += ", transformed";
      if (record.group >= 0) lines += ", clipped to " + number_text(limits_[static_cast<std::size_t>(record.group)]);
      if (priority_ != 0) lines += ", priority " + std::to_string(priority_);
      lines += '\n';
    }
    return lines;
  }
  std::string names() const {
    std::string list;
    for (UpdateRecord const& record : records_) list += (list.empty() ? "" : ", ") + record.registration->name;
    return list;
  }
  std::string_view first_name() const { return records_.empty() ? std::string_view{} : records_.front().registration->name; }
  // The name of a variable that was destroyed, or null.
  std::string const* gone() const {
    for (UpdateRecord const& record : records_)
      if (record.registration->gone) return &record.registration->name;
    return nullptr;
  }
  int waiting_for() const {
    if (agreement_.in_flight()) return agreement_.waiting_for();
    int const rank = mail_.waiting_for();
    return rank >= 0 ? rank : dense_.waiting_for();
  }

 protected:
  enum class Stage : unsigned char { agreeing, exchanging, arrived };
  enum class Which : unsigned char { all, replicated, sharded };

  void clear() {
    busy_ = true;
    idle_ = false;
    priority_ = 0;
    error_.reset();
    limits_.clear();
    records_.clear();
    overwrites_ = false;
    prepared_ = {};
    buckets([](auto& bucket, bool) { bucket.clear(); });
    findings_.each([](auto& findings) { findings.of_gradients.clear(), findings.of_sums.clear(); });
  }
  void close_buckets() {
    Spread const spread = !early_ ? Spread::later : limits_.empty() ? Spread::in_place : Spread::apart;
    buckets([&](auto& bucket, bool sharded) { bucket.close(*topology_, options_->fusion, sharded, spread); });
  }
  void end() noexcept {
    buckets([](auto& bucket, bool) { bucket.drop(); });
    busy_ = false;
    stage_ = Stage::arrived;
  }

  // In every space, for those findings that `which` chooses of it.
  template <class Which>
  void start_looking(Which which) {
    findings_.each([&]<class In>(In& findings) {
      using Space = typename In::space;
      which(findings).start(RowOps<Space>{queue_of<Space>(topology_->world())});
    });
  }

  std::uint64_t hash_with(Fingerprint hash) const {
    for (double const limit : limits_) hash.add(std::bit_cast<std::uint64_t>(limit));
    hash.add(early_);
    hash.add(static_cast<std::uint64_t>(priority_));
    return hash.value();
  }

  // True once the ranks agreed, or did not.
  bool agreed() {
    if (!agreement_.poll()) return false;
    unanimous_ = agreement_.unanimous();
    int const active = agreement_.active();
    idle_ = unanimous_ && active == 0;
    divisors_ = {options_->join_divisor == JoinDivisor::active ? active : topology_->size(), active};
    if (idle_) buckets([](auto& bucket, bool) { bucket.clear(); });
    stage_ = unanimous_ && !idle_ ? Stage::exchanging : Stage::arrived;
    carried_ = reduced_ = false;
    gathered_ = !early_;
    bucket_ = 0;
    return true;
  }
  // The reduction of all buckets and, where nobody needs to see them before, the gathering of the sums.
  bool exchange_dense() {
    reduced_ = reduced_ || dense_phase(Which::all, [](auto& bucket, auto& lane) { return bucket.reduce(lane); });
    if (reduced_ && !gathered_)
      gathered_ = dense_phase(Which::replicated, [](auto& bucket, auto& lane) { return bucket.gather_sums(lane); });
    return reduced_ && gathered_;
  }

  // The buckets take turns on the dense lane; true once all have passed.
  template <class Phase>
  bool dense_phase(Which which, Phase phase) {
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
  template <class F>
  void buckets(F&& f) {
    buckets_.each([&](auto& in_space) { in_space.each(f); });
  }

  Topology<C> const* topology_;
  SessionOptions const* options_;
  bool const* joined_;
  void const* session_;
  std::string_view* current_;
  Agreement<C> agreement_;
  Mails<C> mail_;
  Lane<C> dense_;
  Buckets<C> buckets_;
  BySpace<C, FindingsIn> findings_;
  MeasuredSums<C> measured_;
  std::vector<UpdateRecord> records_;  // of the updates prepared, in the order of the arguments
  Fingerprint prepared_;               // of them as they were then
  std::vector<GradientMemory> gradient_memory_;
  std::size_t looked_at_ = 0;  // updates, when that was last found to be each one's own
  std::vector<double> limits_;
  std::optional<Error> error_;  // this rank's refusal
  Ahead<C>* ahead_ = nullptr;
  std::size_t bucket_ = 0;
  int priority_ = 0;
  Divisors divisors_;
  Stage stage_ = Stage::arrived;
  bool busy_ = false, unanimous_ = true, carried_ = true, reduced_ = true, gathered_ = true, early_ = false, idle_ = false,
       adapts_ = false, overwrites_ = false, moved_ = false;
};

template <class Argument>
inline constexpr bool is_clip_group = false;
template <class... Updates>
inline constexpr bool is_clip_group<ClipGroup<Updates...>> = true;

template <Communicator C, class... Arguments>
class Flight final : public FlightBase<C> {
  using Base = FlightBase<C>;
  using Taken = TakesAny<Arguments...>;
  static constexpr bool clips = (false || ... || is_clip_group<Arguments>);
  using typename Base::Stage;
  using Base::topology_, Base::current_, Base::records_, Base::agreement_, Base::mail_, Base::stage_, Base::idle_, Base::ahead_;

 public:
  using Base::Base;

  // Local. Checks and prepares all updates; what goes wrong is kept for the agreement. `keep`: the updates outlive the call,
  // and what can be done before the step completes them is.
  void prepare(bool keep, Arguments const&... arguments) {
    this->clear();
    bool const finite = this->options_->non_finite == NonFinite::error;
    this->early_ = keep || topology_->spreads();
    counts_ = 0;
    try {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        (seat(std::get<I>(seats_), arguments, Preparing{keep, *this->joined_, finite}), ...);
      }(std::index_sequence_for<Arguments...>{});
      this->adapts_ = Taken::adapting;
      if (this->overwrites_) refuse_shared_memory();
      if (ahead_) counts_ += ahead_->counts();
      this->close_buckets();
      if (finite) this->start_looking([](auto& findings) -> auto& { return findings.of_gradients; });
      agreement_.reserve(counts_);
    } catch (...) {
      this->error_ = current_error(topology_->rank(), "step", records_.empty() ? std::string_view{} : records_.back().name());
    }
  }

  // The agreement about these updates begins. `context` is what else the ranks must have in common.
  void post(std::uint64_t context) {
    bool const refused = this->error_.has_value();
    Fingerprint hash;
    hash.add(context);
    hash.add(this->hash_with(refused ? Fingerprint{} : this->prepared_));
    agreement_.begin(hash.value(), !refused, *this->joined_, refused ? 0 : counts_, !ahead_ || ahead_->planned());
    std::size_t which = 0;
    if constexpr (Taken::journeys)
      if (!refused) works([&](auto& work) {
        if (work.counts() == 0) return;
        work.tell(*topology_, [&](int rank, std::size_t count) { agreement_.tell(rank, which, count); });
        which += work.counts();
      });
    if (!refused && ahead_) ahead_->tell(agreement_, which);
    agreement_.post();
    stage_ = Stage::agreeing;
  }

  bool poll() override {
    if (stage_ == Stage::agreeing && this->agreed() && stage_ == Stage::exchanging) depart();
    if (stage_ == Stage::exchanging) {
      if (!this->carried_) carry_rows();
      bool const dense = this->exchange_dense();
      if (this->carried_ && dense) stage_ = Stage::arrived;
    }
    return stage_ == Stage::arrived;
  }

  void reduce([[maybe_unused]] int group_base) override {
    named_works([&](auto& work) {
      work.reduce();
      work.divide_by(this->divisors_);
      work.deposit(!clips || work.group() < 0 ? -1 : group_base + work.group());
    });
  }
  void merge() override {
    named_works([](auto& work) { work.merge(); });
  }
  void transform() override {
    if constexpr (Taken::transform) named_works([](auto& work) { work.transform(); });
  }
  void seek(bool finite) override {
    if constexpr (Taken::measures) {
      this->measured_.each([](auto& sums) { sums.sharded.clear(), sums.replicated.clear(); });
      works([&](auto& work) {
        if (work.leader()) work.enrol(this->measured_);
      });
      this->measured_.each([&](auto& sums) { sums.sharded.open(*topology_), sums.replicated.open(*topology_); });
    }
    if (!clips && !finite) return;
    named_works([&](auto& each) {
      with_work(each, [&](auto& work) {
        if (!work.leader()) return;
        auto& findings = findings_of(work).of_sums;
        if (work.group() >= 0) work.sought.squares = findings.seek(Sought::squares, work.clipped(*topology_));
        if (finite) work.sought.in_sums = findings.seek(Sought::non_finite, work.result());
      });
    });
    this->start_looking([](auto& findings) -> auto& { return findings.of_sums; });
  }
  void norms([[maybe_unused]] double* squared) override {
    if constexpr (clips) works([&](auto& each) {
      with_work(each, [&](auto& work) {
        if (work.leader() && work.group() >= 0)
          squared[work.group()] += findings_of(work).of_sums.sum_of_squares(work.sought.squares);
      });
    });
  }
  std::optional<NonFiniteFound> non_finite() override {
    std::optional<NonFiniteFound> found;
    auto const look = [&](bool in_gradient) {
      works([&](auto& each) {
        with_work(each, [&](auto& work) {
          auto const place = in_gradient ? work.sought.in_gradient : work.sought.in_sums;
          if (found || place == SoughtOf::none) return;
          auto const& findings = findings_of(work);
          auto const element = (in_gradient ? findings.of_gradients : findings.of_sums).first_non_finite(place);
          if (element) found = {non_finite_error(work, *element, in_gradient), in_gradient};
        });
      });
    };
    look(true);
    if (!found) look(false);
    return found;
  }
  void measure([[maybe_unused]] double const* scales) override {
    if constexpr (Taken::measures) works([&](auto& work) {
      if (work.leader()) work.measure(scale_of(work, scales));
    });
  }
  void apply(double const* scales) override {
    works([&](auto& work) {
      if (work.leader()) work.apply(scale_of(work, scales));
    });
  }
  std::size_t use_words() override {
    std::size_t sum = 0;
    adaptable([&](auto& work, auto adaptation) { sum += adaptation.words(work.state()); });
    return sum;
  }
  void tell_use(std::vector<double>& words, double now) override {
    adaptable([&](auto& work, auto adaptation) { adaptation.tell(work.state(), words, now); });
  }
  void adapt(Adapting<C>& by, FunctionRef<double const*(int)> words_of, std::size_t& at) override {
    adaptable([&](auto& work, auto adaptation) {
      auto const told = [&words_of, begin = at](int rank) { return words_of(rank) + begin; };
      at += adaptation.words(work.state());
      if (work.leader()) adaptation.conclude(work.state(), by, told);
    });
  }
  void close() noexcept override {
    idle_ = false;
    works([](auto& work) { work.close(); });
    this->end();
  }

 private:
  template <class Work>
  static double scale_of([[maybe_unused]] Work& work, [[maybe_unused]] double const* scales) {
    return !clips || work.group() < 0 ? 1.0 : scales[work.group()];
  }

  template <class S, class Argument>
  void seat(S& seat, Argument const& argument, Preparing how) {
    int group = -1;
    if constexpr (is_clip_group<Argument>) {
      group = static_cast<int>(this->limits_.size());
      this->limits_.push_back(argument.max_norm);
    }
    seat.prepare(argument, group, [&](auto& work, auto const& update, int in_group) {
      using Rows = UpdateRecord::Rows;
      Registration const& known = *update.state->registration();
      if (known.session != this->session_) throw known.stranger(topology_->rank(), "step");
      records_.push_back({&known, in_group, transforms<decltype(update.function)>, Rows::none});
      UpdateRecord& record = records_.back();
      work.prepare(update, *topology_, how, in_group);
      if constexpr (requires { work.memory(); }) {
        this->overwrites_ |= work.memory().in_place;
        this->moved_ |= work.moved();
      }
      if constexpr (requires { work.plan_known(); }) record.rows = work.plan_known() ? Rows::of_a_pull : Rows::by_index;
      record.add_to(this->prepared_, *update.state);
      with_work(work, [&](auto& prepared) { look_at_gradient(prepared, how); });
      work.join(this->buckets_);
      this->early_ = this->early_ && work.gathers_early();
      if constexpr (Taken::journeys) counts_ += work.counts();
    });
  }

  // Looks only where gradients have moved since it last looked.
  void refuse_shared_memory() {
    if (!this->moved_ && this->looked_at_ == records_.size()) return;
    auto& memory = this->gradient_memory_;
    memory.clear();
    works([&](auto& work) {
      if constexpr (requires { work.memory(); }) memory.push_back(work.memory());
    });
    auto const shared = shared_memory(memory);
    if (!shared) {
      this->moved_ = false;
      this->looked_at_ = records_.size();
      return;
    }
    auto const& [overwritten, other] = *shared;
    throw Error{Errc::invalid_argument, topology_->rank(), "step", std::string{overwritten.variable},
                "its gradient was given in_place, and the gradient of " + std::string{other.variable} + " shares memory with it"};
  }

  template <class Work>
  auto& findings_of(Work const&) {
    return this->findings_.template of<typename Work::Space>();
  }
  template <class Work>
  Error non_finite_error(Work& work, NonFiniteElement const& found, bool in_gradient) const {
    return {Errc::non_finite, topology_->rank(), "step", work.state().name(),
            std::string{in_gradient ? "of the gradient, " : "of the sum over ranks, "} + work.place_of(found, !in_gradient) +
                " is " + number_text(static_cast<typename Work::T>(found.value))};
  }
  // In the host's memory a gradient is looked at before it is sent; elsewhere with all others, when the step is to be completed.
  template <class Work>
  void look_at_gradient(Work& work, Preparing how) {
    work.sought = {};
    if (!how.finite || how.joined) return;
    if constexpr (Work::Space::host_readable) {
      if (auto const found = first_non_finite(work.gradient())) throw non_finite_error(work, *found, true);
    } else {
      work.sought.in_gradient = findings_of(work).of_gradients.seek(Sought::non_finite, work.gradient());
    }
  }

  // Calls f with every work that was prepared, in the order of the arguments; with none while all ranks have joined.
  template <class F>
  void works(F&& f) {
    std::size_t left = idle_ ? 0 : records_.size();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (std::get<I>(seats_).each(left, f), ...);
    }(std::index_sequence_for<Arguments...>{});
  }

  // The same, where errors are to name the variable.
  template <class F>
  void named_works(F&& f) {
    UpdateRecord const* record = records_.data();
    try {
      works([&](auto& work) {
        f(work);
        ++record;
      });
    } catch (...) {
      *current_ = record->name();
      throw;
    }
  }

  // Calls f with every work of a variable under Auto, and with its Adaptation.
  template <class F>
  void adaptable([[maybe_unused]] F&& f) {
    if constexpr (Taken::adapting) works([&](auto& work) {
      using State = std::remove_cvref_t<decltype(work.state())>;
      if constexpr (requires { requires State::adaptive; }) f(work, Adaptation<State>{});
    });
  }

  void carry_rows() {
    bool const climbs = ahead_ && agreement_.ahead();
    this->carried_ = carry(mail_, [&](auto&& f) {
      if constexpr (Taken::journeys) works([&](auto& work) { work.visit_journey(f); });
      if (climbs) f(*ahead_);
    });
    if (this->carried_ && climbs) ahead_->arrive();
  }

  void depart() {
    std::size_t which = 0;
    if constexpr (Taken::journeys) works([&](auto& work) {
      if (work.counts() == 0) return;
      work.hear(*topology_, [&](int rank) { return static_cast<std::size_t>(agreement_.told(rank, which)); });
      which += work.counts();
    });
    if (ahead_ && agreement_.ahead()) ahead_->climb(agreement_, which, *topology_);
  }

  std::tuple<Seat<C, Arguments>...> seats_;
  std::size_t counts_ = 0;  // numbers that ride in the agreement
};

}  // namespace detail
}  // namespace parallax
