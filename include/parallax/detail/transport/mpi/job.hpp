// The beginning of an MPI job, the words of its errors, and its end. Trainers that do not call `run_mpi` make an
// MpiEnvironment; the rest is called by the communicator.
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

namespace parallax::inline v0_2 {

// Exit code of a job ended by this library: by MPI_Abort, after one report on stderr. A process that leaves a session without
// `finish` exits with it, too.
inline constexpr int mpi_abort_code = abort_code;

// Opt-in owner of MPI's initialisation (MPI_THREAD_SERIALIZED, for a ProgressThread), unless MPI is initialised; it finalises
// MPI then. If an exception leaves its scope, peers may wait for this rank for ever and MPI_Finalize for them: it reports on
// stderr, and the job ends with `mpi_abort_code` within a second. Construct it first, so it is destroyed last.
class MpiEnvironment {
 public:
  // Initialises MPI, with all processes of the job, unless it is. Throws Error (transport) if MPI cannot be initialised.
  MpiEnvironment() { initialise(nullptr, nullptr); }
  // Initialises MPI, like the constructor without arguments, with those of `main`. MPI may take its own out of them.
  MpiEnvironment(int& argc, char**& argv) { initialise(&argc, &argv); }
  MpiEnvironment(MpiEnvironment&&) = delete;
  // Waits for all ranks in MPI_Finalize if this object initialised MPI and no exception is unwinding; else it is local.
  ~MpiEnvironment();

 private:
  // Initialises MPI unless it is. Null pointers: no arguments. Throws Error (transport) if MPI cannot be initialised.
  void initialise(int* argc, char*** argv);

  // True if MPI was initialised here; and the number of exceptions then unwinding.
  bool owner_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

namespace detail {

inline bool mpi_job_is_ending = false;  // MPI is not called any more, but to end the job
inline bool mpi_body_is_run = false;    // by run_mpi, with a report of its errors
inline std::string mpi_last_failure;    // a communicator's last error, for the report at the job's end

// The process known to MPI. Its forked children call MPI for nothing: their messages would be the rank's.
inline Birth mpi_process;

// Returns true if MPI is initialised and not finalised, and this is the process it knows.
bool mpi_is_usable();

// A guard of MPI's initialisation, during its lifetime. MPI may end the process there with words of its own, as MPICH 5 does if
// started by Open MPI's mpiexec. Then the guard's words come last, and the exit code is `mpi_abort_code`.
class MpiStart {
 public:
  MpiStart();
  ~MpiStart() { lasts_ = false; }
  MpiStart(MpiStart&&) = delete;

 private:
  // Says on stderr, during a guard's lifetime, why MPI ended this process, if that can be told. Called by `exit`.
  static void at_exit();

  static inline bool lasts_ = false;
};

// The end of this process's job: by one thread, the main one or the one that `soon` makes, and with one report.
class MpiEnd {
 public:
  // Says the report on stderr, the lines `before` it, and ends the job. Ranks often find the same failure together: they take
  // turns, so one reports: rank `culprit`, if known (not -1), and half a second later the others. `rank`: this one.
  [[noreturn]] static void now(int rank, std::string_view report, int culprit = -1, std::string_view before = {});

  // Ends the job a second later, in a thread of its own. Returns at once, for the handler of the exception at hand to explain
  // it. The report is said `at_once`, or after the second, if the job lasts so long. If the system makes no thread, run_mpi
  // ends the job, for it handles all errors of its body; elsewhere this function waits the second and ends it.
  static void soon(int rank, std::string_view report, bool at_once);

  // Waits two seconds for the end by another thread or rank, then exits. If `soon` got no thread, ends the job with its report.
  [[noreturn]] static void await();

  // Ends the job at the process's exit within the second of `soon`, if its report was said; else does as `await`.
  [[noreturn]] static void at_exit();
  // Returns true if this thread ends the job: MPI_Abort may call `exit`.
  static bool here() { return here_; }

 private:
  // Says a line (a std::string, deleted by nobody) after a second, and ends the job. Returns null if another thread ends it.
  static void* end_after_a_second(void* line);
  // Returns the line for stderr, with a communicator's last error, if it is another one.
  static std::string last_words(int rank, std::string_view report);
  // Ends the job, after a pause for the launcher to pass the report on: it drops the content of its pipes at the job's end. The
  // communicator must be MPI_COMM_WORLD: given a duplicate, MPICH 4's MPI_Abort spins for ever while a large message to a stuck
  // neighbour is on its way, and mpiexec may return the 9 of a killed rank instead of our exit code.
  [[noreturn]] static void abort();

  // True if a thread ends the job already; if a report was said; if this thread is the one.
  static inline std::atomic<bool> taken_{false};
  static inline bool said_ = false;
  static inline thread_local bool here_ = false;
  // The line still to be said, if no thread could be made to say it.
  static inline std::string* owed_ = nullptr;
};

// Ends the job by MpiEnd::now: the error's sentence comes last, behind its report of every rank. `rank`: this one.
[[noreturn]] void end_mpi_job(int rank, Error const& error);

// A process's debts to its peers: the sessions on its communicators that began and have not finished.
class MpiDebts {
 public:
  // Watches exits of this process from now on, and notes it as the one known to MPI.
  static void watch();
  // Notes a new communicator by its journal, which must stay until `leave`, its rank of this process, and its deadline.
  static void enter(Journal const& journal, int rank, std::chrono::nanoseconds deadline);
  // Notes the end of a communicator and its journal. A session open there was forgotten: the exit code is `mpi_abort_code`.
  static void leave(Journal const& journal);
  // Makes a thread that says on stderr, if a session was forgotten by a rank other than 0, that peers go on. Returns at once,
  // or, without a thread, after the line. Called before MPI_Finalize waits for the peers: if all forget to finish, they end
  // together, and rank 0's own line is enough. Peers go on if MPI_Finalize takes longer than `to_end_together`, more than its
  // time beside other work, or than half of the shortest deadline, for a peer in a wait ends the job at its own.
  static void tell_if_peers_go_on(int rank);
  static constexpr std::chrono::seconds to_end_together{2};
  // Returns the exit code of a process that would exit with `status`: `mpi_abort_code` if a session was forgotten.
  static int status(int status) { return forgotten_ ? mpi_abort_code : status; }

 private:
  // One communicator of this process.
  struct Debtor {
    Journal const* journal;
    int rank;
  };
  // Returns the debtors of this process, in the order of their making.
  static List<Debtor>& debtors();
  // Called by `exit`: ends the job if a session is still open, and changes the exit code if one was forgotten.
  static void at_exit();

  // A flag: a communicator went with an open session.
  static inline bool forgotten_ = false;
  // The shortest deadline of any communicator so far, twice `to_end_together` at most.
  static inline std::chrono::nanoseconds shortest_{2 * to_end_together};
};

// Returns Error (transport) with MPI's own words for a code. `rank`: the peer, or -1.
PARALLAX_COLD Error mpi_error(int code, int rank, std::string_view operation);

// Throws the error, and keeps it for the report at the job's end. Called for every error of a communicator in an operation.
[[noreturn]] void mpi_fail(Error const& error);
// Throws Error (transport) with the call and the peer (-1: none), as mpi_fail does, unless the code is MPI_SUCCESS.
void mpi_check(int code, std::string_view call, int peer = -1);

// Returns a count as MPI takes it; all counts pass here. Throws Error (invalid_argument) if it is more than INT_MAX.
int mpi_count(std::size_t count);

// A remedy for MPICH 4: an error found by MPI_Test goes to the handler of MPI_COMM_WORLD, which usually ends the job and names
// no one, instead of to the handler of the message's communicator. While this lives, such errors are returned. MPICH 5 is
// without the fault; it is the first with MPI 5, and its ABI.
class MpiErrorsAreReturned {
 public:
  MpiErrorsAreReturned(MpiErrorsAreReturned&&) = delete;
#if MPI_VERSION < 5
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
  MpiErrorsAreReturned() {}
#endif
};

}  // namespace detail

}  // namespace parallax

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/job-inl.hpp"
#endif
