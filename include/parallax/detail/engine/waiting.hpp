// Waiting of an engine: every wait of its operations under a deadline, with a journal of its reason, and the one way in which
// an operation fails or ends the session. A session's core owns a Waiting. The room `engine` has parts of a session that
// another engine would share: how ranks wait, agree and fail. Here are also the journal's words for operations and phases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/transfer/agreement/journal_report.hpp"
#include "parallax/detail/transfer/lane.hpp"
#include "parallax/detail/variable/registration.hpp"

namespace parallax::inline v0_2 {

// Operations of a session. Ranks compare the number of one before it begins.
enum class Operation : std::uint8_t {
  pull = 1,
  start,
  step,
  broadcast,
  bind_step,
  search_pieces,
  assign,
  scale,
  finish,
  save,
  restore,
  gather,
  scatter,
  save_async,
  push,
  train,
  together,
  replay
};
// Progress of an operation between its call and its return: waits for all ranks to agree; exchanges; waits for the commit;
// gathers and applies.
enum class Phase : std::uint8_t { agreeing = 1, exchanging, committing, applying };

namespace detail {
// Words of the journal, by the enumerators' numbers.
inline constexpr JournalWord operation_words[] = {
    "nothing", "pull",    "start",  "step",    "broadcast",  "bind_step", "search_pieces", "assign",   "scale", "finish",
    "save",    "restore", "gather", "scatter", "save_async", "push",      "train",         "together", "replay"};
inline constexpr JournalWord phase_words[] = {"", "agreeing", "exchanging", "committing", "applying"};
// Returns the name of an enumerator in the journal.
inline JournalWord const& word(Operation operation) { return operation_words[static_cast<std::size_t>(operation)]; }
inline JournalWord const& word(Phase phase) { return phase_words[static_cast<std::size_t>(phase)]; }
}  // namespace detail

// Returns the operation's word, as errors name it; ends with a zero byte.
constexpr std::string_view to_string(Operation operation) {
  return detail::operation_words[static_cast<std::size_t>(operation)].text();
}
// Returns the phase's word in reports and traces.
constexpr std::string_view to_string(Phase phase) { return detail::phase_words[static_cast<std::size_t>(phase)].text(); }

}  // namespace parallax

namespace parallax::inline v0_2::detail {

// Object of a wait, told if it takes too long: the exchange, asked for the rank behind, and the names of the variables
// concerned. Refers to both, which outlive the wait.
class Awaited {
 public:
  template <class Exchange>
  Awaited(Exchange const& exchange, FunctionRef<std::string()> its_names)
      : names{its_names}, exchange_{&exchange}, waiting_for_{[](void const* given) {
          return static_cast<Exchange const*>(given)->waiting_for();
        }} {}

  // Returns the rank waited for, or -1 for none in particular. Called by the wait, when it has taken a while.
  int waiting_for() const { return waiting_for_(exchange_); }

  FunctionRef<std::string()> names;

 private:
  void const* exchange_;
  int (*waiting_for_)(void const*);
};

// A refusal agreed on by all ranks, thrown inside an engine: the session stays usable. `Waiting::guarded` throws its Error on.
struct Refused {
  Error error;
};

// Things under way in an engine beside the operation at hand. A session's core is one; its Waiting calls it from every wait.
class Underway {
 public:
  virtual void progress() = 0;                   // lets it move on; throws the errors of a Request's `test`
  virtual void drop(char const* operation) = 0;  // collective: waits for its end, after calls of different operations
  virtual void withdraw() noexcept = 0;          // after an abort: returns once no peer touches our memory
  virtual std::string settings() const = 0;      // returns the settings that ranks must have in common, in words

 protected:
  ~Underway() = default;
};

// Order of an operation among its caller's work in a stream of the caller's (CallerStream). `between`: behind all earlier work
// of the caller's stream, and ahead of all later work. `beside`: the operation sees to its order itself, or needs none.
enum class CallerOrder : bool { between, beside };

// True if a communicator's device has a queue that tells of its caller's stream.
template <Communicator C>
inline constexpr bool knows_caller = requires(C& world) {
  begin_call(world.queue());
};

// Puts all later work of the device's queue behind the earlier work of the caller's stream. Local; the host waits for nothing.
// Throws the device's errors.
template <Communicator C>
void follow_caller([[maybe_unused]] C& world) {
  if constexpr (knows_caller<C>) begin_call(world.queue());
}

// While it lives, operations on rows go into the stream of the caller, if there is one. Made by a `start` around the preparation
// of its updates; the queue's own work follows the caller afterwards.
template <Communicator C>
class InCallersStream {
 public:
  explicit InCallersStream(C& world) : world_{&world} {
    if constexpr (knows_caller<C>) lend_caller(world_->queue(), true);
  }
  InCallersStream(InCallersStream const&) = delete;
  ~InCallersStream() {
    if constexpr (knows_caller<C>) lend_caller(world_->queue(), false);
  }

 private:
  C* world_;
};

// Waiting of one rank, and the begin, failure and end of its operations. Every operation of a session runs in `guarded`, and
// every wait in `drive`. Refers to the topology, the traffic and the engine, which outlive it. C: an edge to any communicator.
template <Communicator C>
class Waiting final : public LongWork {
 public:
  Waiting(Topology<C> const& topology, Traffic const& traffic, Underway& underway)
      : topology_{&topology}, traffic_{&traffic}, underway_{&underway}, journal_{&topology.world().journal()} {}
  Waiting(Waiting&&) = delete;

  // Polls `done`, and everything under way, until `done` is true or the deadline has passed since the call or since the
  // operation came to its latest phase. A failure here ends the session before the caller's memory goes out of scope: no peer
  // reads it any more when this throws. `awaited` is asked only by a long wait, for its report. Throws Error (timeout) for the
  // rank to blame, and the errors of `done`.
  void drive(char const* operation, FunctionRef<bool()> done, Awaited const& awaited);

  // Runs one public operation; returns the result of `body`. Throws Error: the one of a refusal (Refused) by all ranks;
  // poisoned if the session has ended. Anything else thrown ends the session, and goes on as an Error.
  template <class Body>
  auto guarded(char const* operation, Body&& body) {
    return guarded(operation, CallerOrder::between, body);
  }
  // Runs one as `guarded(operation, body)` does, but in `order` among the caller's work on a device, not always `between`.
  template <class Body>
  auto guarded(char const* operation, CallerOrder order, Body&& body) {
    using Result = decltype(body());
    if constexpr (std::is_void_v<Result>) {
      guard(operation, order, body);
    } else {
      std::optional<Result> result;
      guard(operation, order, [&] { result.emplace(body()); });
      return std::move(*result);
    }
  }

  // Local, by a ProgressThread's thread. Makes a little progress, unless an operation is at work; a failure ends the session.
  void help() noexcept {
    help([&] { underway_->progress(); });
  }
  // Calls `work`, unless an operation is at work or the session has ended; its exception ends the session.
  void help(FunctionRef<void()> work) noexcept;
  // Local. Makes operations take the lock that `help` tries, or take none. Called by a ProgressThread before its thread begins
  // and after it has ended. Throws Error (misuse) for `true` if only one thread may use the communicator.
  void take_turns(bool on);

  // Local, from anywhere in the work of this rank. Tells the other ranks that the work goes on, once it has taken an eighth of
  // the deadline, and again whenever it has taken twice as long. They take it for a pause. `over`: the work has ended, and they
  // are told of this. Says nothing within a pause of the trainer's.
  PARALLAX_COLD void works(bool over) noexcept override;

  // Local. Aborts the communicator, and returns once no peer touches our memory. From here on nothing of the session is in
  // flight, its peers are told `error`, and operations throw Error (poisoned).
  PARALLAX_COLD void end(Error const& error);
  // Returns true if `end` was called.
  bool ended() const { return poisoned_.has_value(); }
  // Returns the error of an exception on its way out of the session: after a refused operation, with the refusal's words and
  // rank.
  PARALLAX_COLD Error left() const {
    int const rank = topology_->rank();
    std::string said = joined({"rank ", rank, " left the session by an exception"});
    if (refused_) append(said, {", after ", refused_->what()});
    return {Errc::aborted, refused_ ? refused_->rank() : rank, "session", "", said};
  }
  // Returns true if this process is a forked child of the rank's: it has no peers.
  bool in_child() const { return birth_.in_child(); }
  // Returns the work under way, for rounds, which drop it if ranks called different operations.
  Underway& underway() { return *underway_; }
  // Returns true if an exception is on its way that is younger than the session.
  bool unwinding() const { return std::uncaught_exceptions() > exceptions_; }

  // Returns this rank's journal, the communicator's, which reports of other ranks read.
  Journal& journal() { return *journal_; }
  // Returns now, in ns of the communicator's clock, as in the journal.
  std::int64_t clock() const { return now(topology_->world()).count(); }
  // Returns now in seconds, to time steps.
  double seconds() const { return std::chrono::duration<double>{now(topology_->world())}.count(); }
  // Notes the operation's new phase in the journal, with the payload sent so far. A wait's deadline begins anew.
  void advance(Phase phase) { advance(phase, clock(), {}); }
  // Notes a new phase as `advance`, but at the time of the last vain look of the wait at hand, or just over. `first`: rank 0's
  // clock as it posted the agreement, if known.
  void arrive(Phase phase, ToldClock first = {}) { advance(phase, looked_ ? looked_ : clock(), first); }

  // Sets how much longer than the deadline the waits of the operation at hand last. The operation's end sets it to 0.
  void allow(std::chrono::nanoseconds more) { allowed_ = more; }

  // Name of the variable at hand, for errors of phases that do not name one. A view of its registration's: set by seats and
  // fetches, cleared by each operation.
  std::string_view current;

 private:
  [[gnu::noinline]] void advance(Phase phase, std::int64_t at, ToldClock first) {
    ++advances_;
    journal_->advance(word(phase), sent(), at, first);
  }
  std::uint64_t sent() const { return traffic_->payload_sent() - sent_before_; }  // in the operation at hand

  // Returns a value that stands for the calling thread.
  static void const* this_thread() {
    static thread_local char here;
    return &here;
  }
  // Notes the holder of the turn. Called by the thread that has just taken the turn, and before the turn is given back.
  void take_turn(bool on) {
    if (takes_turns_) __atomic_store_n(&whose_turn_, on ? this_thread() : nullptr, __ATOMIC_RELAXED);
  }

  // Does the work of `guarded` for a body of any result: takes the turn, refuses if the session has ended, sorts out
  // exceptions.
  void guard(char const* operation, CallerOrder order, FunctionRef<void()> body);
  // Runs the body in this order among the caller's work; on a device the caller's later work follows also a refused body.
  void run(CallerOrder order, FunctionRef<void()> body);
  // Notes the rank waited for, or -1, in the journal, and answers ranks with a longer wait.
  void idle(int waiting_for) {
    journal_->wait(waiting_for, clock());
    topology_->world().answer();
  }
  // Returns the error of a wait that took too long, for rank `missing` (-1: unknown). If ranks keep journals, it names the rank
  // to blame by them, and has their report.
  PARALLAX_COLD Error timed_out(char const* operation, int missing, std::string const& names) {
    idle(missing);
    RankStatus const own = journal_->status();
    std::string_view const phase = own.count ? own.latest()->phase.text() : "";
    if (!topology_->world().keeps_journals()) return timeout_error(topology_->world(), missing, operation, names, phase);
    JournalReport<C> const report{topology_->world()};
    return timeout_error(topology_->world(), report.to_blame(missing), operation, names, phase, report.text());
  }

  Topology<C> const* topology_;
  Traffic const* traffic_;
  Underway* underway_;
  Birth birth_;
  int exceptions_ = std::uncaught_exceptions();
  std::optional<Error> poisoned_, refused_;  // refused_: by the last operation
  SpinLock turns_;                           // held by the thread at work on the session, of two
  bool takes_turns_ = false;
  void const* whose_turn_ = nullptr;               // of the threads, or null
  std::int64_t works_since_ = 0, works_next_ = 0;  // ns; length of work at its next telling, or 0: not yet told
  Journal* journal_;
  std::uint64_t sent_before_ = 0;  // payload, by the operations before the current one
  std::uint64_t advances_ = 0;     // to another phase
  std::int64_t looked_ = 0;        // ns, last vain look of the latest wait; 0: none
  std::chrono::nanoseconds allowed_{0};
};

template <Communicator C>
void Waiting<C>::drive(char const* operation, FunctionRef<bool()> done, Awaited const& awaited) {
  Patience<C> patience{topology_->world(), allowed_};
  std::uint64_t phase = advances_;
  looked_ = 0;
  try {
    while (!done()) {
      if (std::uint64_t const reached = advances_; std::exchange(phase, reached) != reached) patience.begin();
      underway_->progress();
      if (patience.idles()) idle(awaited.waiting_for());
      bool const goes_on = patience.pause();
      looked_ = patience.paused_at().count();
      if (goes_on) continue;
      if (done()) break;  // this rank itself stood still
      throw timed_out(operation, awaited.waiting_for(), awaited.names());
    }
  } catch (...) {
    end(current_error(topology_->rank(), operation));
    throw;
  }
}

template <Communicator C>
void Waiting<C>::guard(char const* operation, CallerOrder order, FunctionRef<void()> body) {
  birth_.check(topology_->rank(), operation);
  Guard const turn{takes_turns_ ? &turns_ : nullptr};
  if (poisoned_)
    throw Error{Errc::poisoned, poisoned_->rank(), operation, "",
                joined({"an earlier failure ended the session: ", poisoned_->what()})};
  struct Leaving {  // notes the end of the operation, after any outcome
    Waiting& waiting;
    ~Leaving() { waiting.take_turn(false), waiting.allowed_ = {}, waiting.journal_->leave(waiting.sent(), waiting.clock()); }
  } const leaving{*this};
  take_turn(true);
  sent_before_ = traffic_->payload_sent();
  current = {};
  refused_.reset();
  try {
    run(order, body);
  } catch (Refused const& refused) {
    refused_ = refused.error;
    throw refused.error;
  } catch (...) {
    if (!poisoned_) end(current_error(topology_->rank(), operation));
    throw Error{*poisoned_};
  }
}

template <Communicator C>
void Waiting<C>::run([[maybe_unused]] CallerOrder order, FunctionRef<void()> body) {
  if constexpr (knows_caller<C>) {
    if (order == CallerOrder::beside) return body();
    follow_caller(topology_->world());
    try {
      body();
    } catch (Refused const&) {
      end_call(topology_->world().queue());
      throw;
    }
    end_call(topology_->world().queue());
  } else {
    body();
  }
}

template <Communicator C>
void Waiting<C>::help(FunctionRef<void()> work) noexcept {
  if (!turns_.try_lock()) return;
  take_turn(true);
  try {
    if (!poisoned_) work();
  } catch (...) {
    end(current_error(topology_->rank(), "poll"));
  }
  take_turn(false);
  turns_.unlock();
}

template <Communicator C>
void Waiting<C>::works(bool over) noexcept {
  auto const tell = [&](std::string_view what, std::int64_t at_most) {
    bool const own = !takes_turns_ || __atomic_load_n(&whose_turn_, __ATOMIC_RELAXED) == this_thread();
    Guard const turn{own ? nullptr : &turns_};
    journal_->pause(what, at_most, clock());
    topology_->world().announce();
  };
  try {
    if (topology_->size() == 1 || poisoned_) return;
    std::int64_t const now = clock(), deadline = std::chrono::nanoseconds{topology_->world().deadline()}.count();
    if (over) {
      bool const told = works_next_ > 0;
      works_since_ = works_next_ = 0;
      if (told) tell({}, 0);
      return;
    }
    if (works_since_ == 0) works_since_ = now;
    std::int64_t const lasted = now - works_since_;
    if (lasted < (works_next_ > 0 ? works_next_ : deadline / 8)) return;
    if (works_next_ == 0 && journal_->status().pause > 0) return;
    works_next_ = 2 * lasted;
    tell("settling rows", 2 * deadline + 4 * lasted);
  } catch (...) {  // waiting ranks hear of it from the end of the communicator
  }
}

template <Communicator C>
void Waiting<C>::take_turns(bool on) {
  if (on && !topology_->world().serialized())
    throw Error{Errc::misuse, topology_->rank(), "ProgressThread", "",
                "only the thread that made the communicator may use it (MPI: less than MPI_THREAD_SERIALIZED)"};
  takes_turns_ = on;
}

template <Communicator C>
void Waiting<C>::end(Error const& error) {
  poisoned_ = error;
  if (in_child()) return;
  try {
    topology_->world().abort(error);
  } catch (...) {}  // no memory: the first error is the one told
  underway_->withdraw();
}

}  // namespace parallax::detail
