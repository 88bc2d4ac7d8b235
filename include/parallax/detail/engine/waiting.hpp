// How an engine waits: every wait of its operations under a deadline, with the journal that says what it waits for, and the one
// way in which an operation fails or ends the session. A session's core owns a Waiting, in which every operation runs. The room
// `engine` has what a session is put together of and another engine would be: how ranks wait, agree and fail.
// Here are the words of the journal, too: the operation, and its phase. Operations name themselves by them as they begin; reports
// and traces show them.
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

// The operations of a session. The number of one is part of what ranks compare before it.
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
// How far an operation has come between its call and its return: waits for all ranks to agree; exchanges; waits for the commit;
// gathers and applies.
enum class Phase : std::uint8_t { agreeing = 1, exchanging, committing, applying };

namespace detail {
// As the journal keeps them.
// By the enumerators' numbers.
inline constexpr JournalWord operation_words[] = {
    "nothing", "pull",    "start",  "step",    "broadcast",  "bind_step", "search_pieces", "assign",   "scale", "finish",
    "save",    "restore", "gather", "scatter", "save_async", "push",      "train",         "together", "replay"};
inline constexpr JournalWord phase_words[] = {"", "agreeing", "exchanging", "committing", "applying"};
// What an enumerator is called in the journal.
inline JournalWord const& word(Operation operation) { return operation_words[static_cast<std::size_t>(operation)]; }
inline JournalWord const& word(Phase phase) { return phase_words[static_cast<std::size_t>(phase)]; }
}  // namespace detail

// The operation's word, as errors name it; ends with a zero byte.
constexpr std::string_view to_string(Operation operation) {
  return detail::operation_words[static_cast<std::size_t>(operation)].text();
}
// The phase's word, as reports and traces name it.
constexpr std::string_view to_string(Phase phase) { return detail::phase_words[static_cast<std::size_t>(phase)].text(); }

}  // namespace parallax

namespace parallax::inline v0_2::detail {

// What a wait is for, told if it takes too long: the exchange, which says what rank is behind, and who names the variables
// concerned. Refers to both.
class Awaited {
 public:
  template <class Exchange>
  Awaited(Exchange const& exchange, FunctionRef<std::string()> its_names)
      : names{its_names}, exchange_{&exchange}, waiting_for_{[](void const* given) {
          return static_cast<Exchange const*>(given)->waiting_for();
        }} {}

  // Asked by the wait, when it has taken a while.
  int waiting_for() const { return waiting_for_(exchange_); }  // a rank, or -1

  FunctionRef<std::string()> names;

 private:
  void const* exchange_;
  int (*waiting_for_)(void const*);
};

// Thrown inside an engine for what all ranks agreed to refuse: the session stays usable. `Waiting::guarded` catches it, and
// throws on the Error that it holds.
struct Refused {
  Error error;
};

// What an engine has under way beside the operation at hand. A session's core is one; its Waiting calls it from every wait.
class Underway {
 public:
  virtual void progress() = 0;                   // lets it move on; throws what a Request's `test` throws
  virtual void drop(char const* operation) = 0;  // collective: where ranks called different operations, it ends on all of them
  virtual void withdraw() noexcept = 0;          // after an abort: returns once no peer touches our memory
  virtual std::string settings() const = 0;      // what ranks must have in common, in words

 protected:
  ~Underway() = default;
};

// How an operation stands to the work of its caller, where that goes into a stream of its own (CallerStream): `between` comes behind
// what the caller's stream was given before, and ahead of what it is given afterwards; `beside` sees to that itself, or need not.
enum class CallerOrder : bool { between, beside };

// Whether a communicator's device has a queue that tells of its caller's stream.
template <Communicator C>
inline constexpr bool knows_caller = requires(C& world) {
  begin_call(world.queue());
};

// What the queue of a communicator's device is given from now on comes behind what the caller's stream was given. Throws what the
// device does. Called by operations that see to their own order.
template <Communicator C>
void follow_caller([[maybe_unused]] C& world) {
  if constexpr (knows_caller<C>) begin_call(world.queue());
}

// While it lives, operations on rows go into the stream of the caller, where there is one. Then the queue's own work waits for it.
// Made by a `start` around the preparation of its updates.
template <Communicator C>
class InCallersStream {
 public:
  explicit InCallersStream(C& world) : world_{&world} {
    if constexpr (knows_caller<C>) lend_caller(world_->queue(), true);
  }
  InCallersStream(InCallersStream const&) = delete;
  ~InCallersStream() { hand_back(); }
  // What the queue is given from now on comes behind all of it. Throws what the queue's device does.
  void end() {
    hand_back();
    follow_caller(*world_);
  }

 private:
  void hand_back() noexcept {
    if constexpr (knows_caller<C>) lend_caller(world_->queue(), false);
  }

  C* world_;
};

// How one rank waits, and how its operations begin, fail and end. Every operation of a session runs in `guarded`, and every
// wait of it in `drive`. Refers to the topology, the traffic and the engine. C: an edge to any communicator.
template <Communicator C>
class Waiting final : public LongWork {
 public:
  Waiting(Topology<C> const& topology, Traffic const& traffic, Underway& underway)
      : topology_{&topology}, traffic_{&traffic}, underway_{&underway}, journal_{&topology.world().journal()} {}
  Waiting(Waiting&&) = delete;

  // Polls `done`, and what is under way, until it is true or the deadline has passed since it was called or the operation came
  // to its latest phase. A failure here ends the session before the caller's memory goes out of scope: no peer reads it any
  // more when this throws. `awaited` is asked only by a long wait, for its report. Throws Error (timeout) for the rank to blame,
  // and what `done` throws.
  void drive(char const* operation, FunctionRef<bool()> done, Awaited const& awaited);

  // Runs one public operation: a refusal is thrown on as the Error that all ranks agreed on; anything else ends the session.
  template <class Body>
  auto guarded(char const* operation, Body&& body) {
    return guarded(operation, CallerOrder::between, body);
  }
  // The same in another order among the caller's work on a device.
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

  // Local, by the thread of a ProgressThread: a little progress, if the session is not at work itself.
  void help() noexcept {
    help([&] { underway_->progress(); });
  }
  // The same of other work.
  void help(FunctionRef<void()> work) noexcept;
  // By a ProgressThread, as it begins and as it ends: whether operations take a lock that `help` tries. Throws Error (misuse)
  // where the communicator may be used by one thread only.
  void take_turns(bool on);

  // Local, from anywhere in the work of this rank. Tells the other ranks that the work goes on, once it has taken an eighth of
  // the deadline, and again whenever it has taken twice as long. It is a pause, and they hear its end, too. Says nothing within
  // a pause of the trainer's.
  PARALLAX_COLD void works(bool over) noexcept override;

  // Aborts the communicator. After this nothing of the session is in flight, its peers are told, and operations throw Error
  // (poisoned).
  PARALLAX_COLD void end(Error const& error);
  // Whether `end` was called.
  bool ended() const { return poisoned_.has_value(); }
  // An exception leaves the session. Its words cannot be had while it is under way; where the last operation was refused they
  // are those of the refusal, the same on all ranks, and so is the rank that is named.
  PARALLAX_COLD Error left() const;
  // Returns whether this process is a forked child of the rank's: it has no peers.
  bool in_child() const { return birth_.in_child(); }
  // For rounds, which drop what is under way where ranks called different operations.
  Underway& underway() { return *underway_; }
  // Whether an exception is on its way that was not when the session was made.
  bool unwinding() const { return std::uncaught_exceptions() > exceptions_; }

  // Of the communicator: the record that reports of other ranks read.
  Journal& journal() { return *journal_; }
  // Now, in ns of the communicator's clock, as the journal has it.
  std::int64_t clock() const { return now(topology_->world()).count(); }
  // The same in seconds, for what times steps.
  double seconds() const { return std::chrono::duration<double>{now(topology_->world())}.count(); }
  // The operation has come to this phase: noted in the journal, with the payload sent so far. A wait's deadline begins anew.
  void advance(Phase phase) { advance(phase, clock(), {}); }
  // The same in a wait, or right after one: what it has waited for came just after it last looked in vain. `first`: rank 0's
  // clock, if that was an agreement.
  void arrive(Phase phase, ToldClock first = {}) { advance(phase, looked_ ? looked_ : clock(), first); }

  // By an operation, as it begins and as it ends: how much longer than the deadline its waits last, for what its ranks do by
  // themselves meanwhile.
  void allow(std::chrono::nanoseconds more) { allowed_ = more; }

  // The variable being worked on, for the errors of phases that do not name one. Set by seats and fetches, cleared by each
  // operation.
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
  // Notes whose turn it is. Called by the thread that has just taken the turn, and before the turn is given back.
  void take_turn(bool on) {
    if (takes_turns_) __atomic_store_n(&whose_turn_, on ? this_thread() : nullptr, __ATOMIC_RELAXED);
  }

  // What `guarded` does, whatever the body returns: takes its turn, refuses to work in an ended session, and sorts out what is
  // thrown.
  void guard(char const* operation, CallerOrder order, FunctionRef<void()> body);
  // Runs the body in that order, also where all ranks refuse what it asks for.
  void run(CallerOrder order, FunctionRef<void()> body);
  // A sign of life from a long wait, for those whose wait is longer.
  void idle(int waiting_for);
  // The error of a wait that took too long. Where ranks keep journals it names the rank that they point to, and has their
  // report.
  PARALLAX_COLD Error timed_out(char const* operation, int missing, std::string const& names);

  Topology<C> const* topology_;
  Traffic const* traffic_;
  Underway* underway_;
  Birth birth_;
  int exceptions_ = std::uncaught_exceptions();
  std::optional<Error> poisoned_, refused_;  // refused_: by the last operation
  SpinLock turns_;                           // held by whoever works on the session, where two threads do
  bool takes_turns_ = false;
  void const* whose_turn_ = nullptr;               // of the threads, or null
  std::int64_t works_since_ = 0, works_next_ = 0;  // ns; how long work has lasted when it is told next, or 0: it was not yet
  Journal* journal_;
  std::uint64_t sent_before_ = 0;  // payload, by the operations before the current one
  std::uint64_t advances_ = 0;     // to another phase
  std::int64_t looked_ = 0;        // ns, when the latest wait last looked in vain; 0: it has not
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
      if (done()) break;  // it was this rank that stood still
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
  struct Leaving {  // notes that the operation has ended, however it did
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
  } catch (...) {  // waiting ranks hear of it by what ended the communicator
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
  } catch (...) {}  // no memory: the first error is the one that is told
  underway_->withdraw();
}

template <Communicator C>
Error Waiting<C>::left() const {
  int const rank = topology_->rank();
  std::string said = joined({"rank ", rank, " left the session by an exception"});
  if (refused_) append(said, {", after ", refused_->what()});
  return {Errc::aborted, refused_ ? refused_->rank() : rank, "session", "", said};
}

template <Communicator C>
void Waiting<C>::idle(int waiting_for) {
  journal_->wait(waiting_for, clock());
  topology_->world().answer();
}

template <Communicator C>
Error Waiting<C>::timed_out(char const* operation, int missing, std::string const& names) {
  idle(missing);
  RankStatus const own = journal_->status();
  std::string_view const phase = own.count ? own.latest()->phase.text() : "";
  if (!topology_->world().keeps_journals()) return timeout_error(topology_->world(), missing, operation, names, phase);
  JournalReport<C> const report{topology_->world()};
  return timeout_error(topology_->world(), report.to_blame(missing), operation, names, phase, report.text());
}

}  // namespace parallax::detail
