// A flight of updates without their types: what ranks agree on and exchange for them, and the phases that it is asked for.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/mail.hpp"
#include "parallax/session/adaptive_work.hpp"
#include "parallax/session/agreement.hpp"
#include "parallax/session/dense_work.hpp"
#include "parallax/session/fetch.hpp"

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

}  // namespace detail
}  // namespace parallax
