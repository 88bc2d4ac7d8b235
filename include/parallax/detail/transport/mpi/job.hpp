// How an MPI job begins, how its errors read, and how it ends. Trainers that do not call `run_mpi` make an MpiEnvironment; the
// rest is called by the communicator.
#pragma once

#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/launch/guard.hpp"
#include "parallax/detail/launch/last_words.hpp"
#include "parallax/detail/transport/mpi/bodies.hpp"

namespace parallax {

// A job that this library ends, ends by MPI_Abort with this exit code, after one report on stderr. A process that leaves a
// session without `finish` exits with it, too.
inline constexpr int mpi_abort_code = abort_code;

// Opt-in. Initialises MPI (MPI_THREAD_SERIALIZED, of which a ProgressThread makes use) unless somebody has, and finalises what
// it initialised. When an exception leaves its scope, peers may wait for this rank for ever and MPI_Finalize for them: it
// reports on stderr, and the job ends with `mpi_abort_code` within a second. Construct it first, so that it is destroyed last.
class MpiEnvironment {
 public:
  // Without arguments for MPI. Error (transport) where MPI cannot be initialised.
  MpiEnvironment() { initialise(nullptr, nullptr); }
  // With those of `main`, from which MPI may take its own.
  MpiEnvironment(int& argc, char**& argv) { initialise(&argc, &argv); }
  MpiEnvironment(MpiEnvironment const&) = delete;
  MpiEnvironment& operator=(MpiEnvironment const&) = delete;
  // Collective, as MPI_Finalize, where it initialised MPI and no exception is unwinding; else local.
  ~MpiEnvironment();

 private:
  // Null pointers: no arguments.
  void initialise(int* argc, char*** argv);

  // Whether MPI was initialised here; and how many exceptions were unwinding then.
  bool owner_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

namespace detail {

inline bool mpi_job_is_ending = false;  // MPI is not called any more, but to end the job
inline bool mpi_body_is_run = false;    // by run_mpi, which quotes what leaves it
inline std::string mpi_last_failure;    // what a communicator threw last, for the report of the one that ends the job

// The process that MPI knows. Its forked children call MPI for nothing: their messages would be the rank's.
inline Birth mpi_process;

// Returns whether MPI is initialised and not finalised, and this is the process that it knows.
bool mpi_is_usable();

// While it lives, MPI is initialised, and may end the process with words that are its own alone, as MPICH 5 does where Open MPI's
// mpiexec started it. Then the guard's words come last, and the exit code is `mpi_abort_code`.
class MpiStart {
 public:
  MpiStart();
  ~MpiStart() { lasts_ = false; }
  MpiStart(MpiStart const&) = delete;
  MpiStart& operator=(MpiStart const&) = delete;

 private:
  // Called by `exit`.
  static void at_exit();

  static inline bool lasts_ = false;
};

// How this process ends its job: one thread does, the main one or that of a grace, and one report is said.
class MpiEnd {
 public:
  // Says the report on stderr, the lines `before` it, and ends the job. Ranks often find the same failure together: they take
  // turns, so that one reports: `culprit`, where it is known, and half a second later the others.
  [[noreturn]] static void now(int rank, std::string_view report, int culprit = -1, std::string_view before = {});

  // Does so after a second, in which the handler of the exception at hand can say what it is: this returns. The report is said
  // `at_once`, or after that second, if the job lasts so long. If the system makes no thread for that second, run_mpi ends the
  // job, for it handles all that leaves its body; elsewhere this function does.
  static void soon(int rank, std::string_view report, bool at_once);

  // Another thread ends the job, or another rank does: here that is waited for, within reason. Says and does it itself where
  // there is no such thread.
  [[noreturn]] static void await();

  // The process exits before that second is over: the handler has said what it had to say.
  [[noreturn]] static void at_exit();
  // This thread ends the job: MPI_Abort may call `exit`.
  static bool here() { return here_; }

 private:
  // Says a line, which nobody deletes, after a second, and ends the job, unless somebody does already.
  static void* end_after_a_second(void* line);
  // The line that stderr gets, with what a communicator threw last, where that is another error.
  static std::string last_words(int rank, std::string_view report);
  // The launcher, which drops what is in its pipes when the job ends, gets time to pass the report on. It must be
  // MPI_COMM_WORLD: given a duplicate, MPICH 4's MPI_Abort spins for ever while a large message to a stuck neighbour is on
  // its way, and mpiexec may return the 9 of a killed rank instead of our exit code.
  [[noreturn]] static void abort();

  // Whether a thread ends the job already; whether a report was said; whether this thread is the one.
  static inline std::atomic<bool> taken_{false};
  static inline bool said_ = false;
  static inline thread_local bool here_ = false;
  // The line that is to be said, where no thread could be made to say it.
  static inline std::string* owed_ = nullptr;
};

// The sentence of an error comes last, behind what its report tells of every rank.
[[noreturn]] void end_mpi_job(int rank, Error const& error);

// What a process owes its peers: the sessions on its communicators that began and have not finished.
class MpiDebts {
 public:
  // From now on exiting is watched.
  static void watch();
  // A communicator of such a deadline has come, whose journal stays until `leave`.
  static void enter(Journal const& journal, int rank, std::chrono::nanoseconds deadline);
  // The communicator goes, and its journal with it.
  static void leave(Journal const& journal);
  // MPI_Finalize is about to wait for the peers. A rank other than 0, which says so at once, says that it left unfinished where
  // they go on: if all forget to finish, they end together, and one line is enough. They go on where MPI_Finalize takes longer than
  // `to_end_together`, which is more than it takes beside other work; or than half of the shortest deadline, for a peer that waits
  // until its own ends the job.
  static void tell_if_peers_go_on(int rank);
  static constexpr std::chrono::seconds to_end_together{2};
  // What a process exits with that would exit with `status`.
  static int status(int status) { return forgotten_ ? mpi_abort_code : status; }

 private:
  // One communicator of this process.
  struct Debtor {
    Journal const* journal;
    int rank;
  };
  // Of this process, in the order of their making.
  static List<Debtor>& debtors();
  // Called by `exit`: ends the job where a session is still open, and changes the exit code where one was forgotten.
  static void at_exit();

  // A flag: a communicator went with an open session.
  static inline bool forgotten_ = false;
  // The shortest deadline of any communicator, as far as `to_end_together` makes a difference.
  static inline std::chrono::nanoseconds shortest_{2 * to_end_together};
};

// Error (transport) with MPI's own words for a code. `rank`: the peer, or -1.
PARALLAX_COLD Error mpi_error(int code, int rank, std::string_view operation);

// Thrown, and kept for the report of who ends the job.
// Called for whatever a communicator throws in an operation.
[[noreturn]] void mpi_fail(Error const& error);
// Throws Error (transport) that names the call and the peer, unless the code is MPI_SUCCESS.
void mpi_check(int code, std::string_view call, int peer = -1);

// Every count that MPI sees passes here.
// Error (invalid_argument) where it is more than INT_MAX.
int mpi_count(std::size_t count);

#if PARALLAX_MPI_BODIES
// MPICH 4 hands an error that MPI_Test finds to the handler of MPI_COMM_WORLD, which usually ends the job and names no
// one, instead of to that of the message's communicator. While this lives, such errors are returned. MPICH 5, which is without that
// fault, is the first that has MPI 5, and its ABI.
class MpiErrorsAreReturned {
#if MPI_VERSION < 5
 public:
  MpiErrorsAreReturned() {
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  ~MpiErrorsAreReturned() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before_);
    MPI_Errhandler_free(&before_);
  }

 private:
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
#else
 public:
  MpiErrorsAreReturned() {}
#endif
 public:
  MpiErrorsAreReturned(MpiErrorsAreReturned const&) = delete;
  MpiErrorsAreReturned& operator=(MpiErrorsAreReturned const&) = delete;
};

// Does this in a thread that nobody waits for. False where none can be had.
inline bool beside(void* (*work)(void*), void* given) {
  pthread_t thread;
  bool const made = pthread_create(&thread, nullptr, work, given) == 0;
  if (made) pthread_detach(thread);
  return made;
}

PARALLAX_MPI_INLINE bool mpi_is_usable() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised && !finalised && !mpi_process.in_child();
}

PARALLAX_MPI_INLINE MpiStart::MpiStart() {
  static bool const watched = std::atexit(at_exit) == 0;
  lasts_ = watched;
}

PARALLAX_MPI_INLINE void MpiStart::at_exit() {
  if (!lasts_ || mpi_process.in_child()) return;
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  std::string const why = objection({variable, getpid()}, {"", 1, true});
  if (why.empty()) return;
  say_and_linger(
      joined({"parallax: MPI ended this process (exit code ", mpi_abort_code, ") where it was to join others: ", why, "\n"}));
  std::_Exit(mpi_abort_code);
}

PARALLAX_MPI_INLINE void MpiEnd::now(int rank, std::string_view report, int culprit, std::string_view before) {
  if (taken_.exchange(true)) await();
  mpi_job_is_ending = true;
  auto const turn = std::chrono::milliseconds{100};
  if (culprit != rank) detail::sleep_for(turn * (culprit < 0 ? std::min(rank, 8) : 5 + std::min(rank, 4)));
  try {
    say(std::string{before} + last_words(rank, report));
  } catch (std::bad_alloc const&) {
    say(BriefLine{rank, report});
  }
  abort();
}

PARALLAX_MPI_INLINE void MpiEnd::soon(int rank, std::string_view report, bool at_once) {
  if (std::exchange(mpi_job_is_ending, true)) return;
  std::string line = last_words(rank, report);
  if (at_once) {
    line.insert(line.size() - 1, "; its handler has a second to say more");
    say(std::exchange(line, {}));
    said_ = true;
  }
  auto* const its = new std::string{line};
  if (beside(end_after_a_second, its)) return;
  owed_ = its;
  if (!mpi_body_is_run) end_after_a_second(its);
}

PARALLAX_MPI_INLINE void* MpiEnd::end_after_a_second(void* line) {
  detail::sleep_for(std::chrono::seconds{1});
  if (taken_.exchange(true)) return nullptr;
  say(*static_cast<std::string*>(line));
  abort();
}

PARALLAX_MPI_INLINE void MpiEnd::await() {
  if (owed_) end_after_a_second(owed_);
  detail::sleep_for(std::chrono::seconds{2});
  std::_Exit(mpi_abort_code);
}

PARALLAX_MPI_INLINE void MpiEnd::at_exit() {
  if (!said_ || taken_.exchange(true)) await();
  abort();
}

PARALLAX_MPI_INLINE std::string MpiEnd::last_words(int rank, std::string_view report) {
  bool const said = mpi_last_failure.empty() || report.find(mpi_last_failure) != report.npos;
  return last_line(rank, said ? report : joined({report, "; last error: ", mpi_last_failure}));
}

PARALLAX_MPI_INLINE void MpiEnd::abort() {
  detail::sleep_for(std::chrono::milliseconds{50});
  here_ = true;
  if (mpi_is_usable()) MPI_Abort(MPI_COMM_WORLD, mpi_abort_code);
  std::_Exit(mpi_abort_code);
}

PARALLAX_MPI_INLINE void end_mpi_job(int rank, Error const& error) {
  std::string before;
  try {
    before = told_before(rank, error);
  } catch (std::bad_alloc const&) {}  // its last words count
  MpiEnd::now(rank, sentence_of(error), error.rank(), before);
}

PARALLAX_MPI_INLINE void MpiDebts::watch() {
  debtors();  // are constructed first, so that they are destroyed last
  static bool const watched = std::atexit(at_exit) == 0;
  if (watched) mpi_process = {};
}

PARALLAX_MPI_INLINE void MpiDebts::enter(Journal const& journal, int rank, std::chrono::nanoseconds deadline) {
  watch();
  if (deadline < shortest_) shortest_ = deadline;
  debtors().push_back({&journal, rank});
}

PARALLAX_MPI_INLINE void MpiDebts::leave(Journal const& journal) {
  forgotten_ = forgotten_ || (journal.open() && !mpi_job_is_ending && !mpi_process.in_child());
  detail::drop_if(debtors(), [&](Debtor const& debtor) { return debtor.journal == &journal; });
}

PARALLAX_MPI_INLINE void MpiDebts::tell_if_peers_go_on(int rank) {
  if (!forgotten_ || rank == 0) return;
  auto const tell = [](void* given) -> void* {
    detail::sleep_for(shortest_ / 2);
    std::string const line = joined({"parallax: rank ", reinterpret_cast<std::intptr_t>(given),
                                     " destroyed its session without finish, and its peers go on\n"});
    std::fwrite(line.data(), 1, line.size(), stderr);
    return nullptr;
  };
  auto* const given = reinterpret_cast<void*>(static_cast<std::intptr_t>(rank));
  if (!beside(tell, given)) tell(given);
}

PARALLAX_MPI_INLINE List<MpiDebts::Debtor>& MpiDebts::debtors() {
  static List<Debtor> all;
  return all;
}

PARALLAX_MPI_INLINE void MpiDebts::at_exit() {
  if (MpiEnd::here() || mpi_process.in_child()) return;
  if (mpi_job_is_ending) MpiEnd::at_exit();
  for (Debtor const& debtor : debtors())
    if (debtor.journal->open()) MpiEnd::now(debtor.rank, "its process exits before its session has finished", debtor.rank);
  if (!forgotten_) return;
  std::fflush(nullptr);
  std::_Exit(mpi_abort_code);
}

PARALLAX_MPI_INLINE Error mpi_error(int code, int rank, std::string_view operation) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {Errc::transport, rank, std::string{operation}, "", std::string(text.data(), static_cast<std::size_t>(length))};
}

PARALLAX_MPI_INLINE void mpi_fail(Error const& error) {
  mpi_last_failure = error.what();
  throw error;
}

PARALLAX_MPI_INLINE void mpi_check(int code, std::string_view call, int peer) {
  if (code != MPI_SUCCESS) mpi_fail(mpi_error(code, peer, call));
}

PARALLAX_MPI_INLINE int mpi_count(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw Error{Errc::invalid_argument, -1, "MPI", "", std::to_string(count) + " is more than an MPI count can hold"};
  return static_cast<int>(count);
}
#endif

}  // namespace detail

#if PARALLAX_MPI_BODIES
PARALLAX_MPI_INLINE void MpiEnvironment::initialise(int* argc, char*** argv) {
  int initialised = 0, provided = 0;
  MPI_Initialized(&initialised);
  if (initialised) return;
  {
    detail::MpiStart const start;
    if (int const code = MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided); code != MPI_SUCCESS)
      throw detail::mpi_error(code, -1, "MPI_Init_thread");
  }
  owner_ = true;
  detail::MpiDebts::watch();
}

PARALLAX_MPI_INLINE MpiEnvironment::~MpiEnvironment() {
  if (!owner_ || detail::mpi_job_is_ending || !detail::mpi_is_usable()) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (std::uncaught_exceptions() == exceptions_) {
    detail::MpiDebts::tell_if_peers_go_on(rank);
    MPI_Finalize();
    return;
  }
  detail::MpiEnd::soon(rank, "it leaves the scope of its MpiEnvironment by an exception", true);
}
#endif

}  // namespace parallax
