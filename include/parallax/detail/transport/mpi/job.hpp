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

namespace parallax::inline v0_2 {

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

}  // namespace detail

}  // namespace parallax

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/job-inl.hpp"
#endif
