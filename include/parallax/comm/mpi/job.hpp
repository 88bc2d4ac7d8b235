// How an MPI job begins, how its errors read, and how it ends.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/error.hpp"

namespace parallax {

// A job that this library ends, ends by MPI_Abort with this exit code, after one report on stderr.
inline constexpr int mpi_abort_code = 86;

// Opt-in. Initialises MPI (MPI_THREAD_SERIALIZED, of which a ProgressThread makes use) unless somebody has, and finalises what
// it initialised. When an exception leaves its scope, peers may wait for this rank for ever and MPI_Finalize for them: it
// reports on stderr and ends the job with `mpi_abort_code` instead. Construct it first, so that it is destroyed last.
class MpiEnvironment {
 public:
  MpiEnvironment() { initialise(nullptr, nullptr); }
  MpiEnvironment(int& argc, char**& argv) { initialise(&argc, &argv); }
  MpiEnvironment(MpiEnvironment const&) = delete;
  MpiEnvironment& operator=(MpiEnvironment const&) = delete;
  ~MpiEnvironment();

 private:
  void initialise(int* argc, char*** argv);

  bool owner_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

namespace detail {

inline bool mpi_job_is_ending = false;
inline std::string mpi_last_failure;  // what a communicator threw last, for the report of the one that ends the job

inline bool mpi_is_usable() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised && !finalised;
}

// One line on stderr, then the end of the job. Ranks often find the same failure together: they take turns, so that one
// reports; and the launcher, which drops what is in its pipes when the job ends, gets time to pass the line on. It must
// be MPI_COMM_WORLD: given a duplicate, MPICH 4's MPI_Abort spins for ever while a large message to a stuck neighbour
// is on its way, and mpiexec may return the 9 of a killed rank instead of our exit code.
[[noreturn]] inline void end_mpi_job(int rank, std::string_view report) {
  std::string line = "parallax: rank " + std::to_string(rank) + " ends the job (exit code " +
                     std::to_string(mpi_abort_code) + "): " + std::string{report};
  if (!mpi_last_failure.empty() && line.find(mpi_last_failure) == line.npos)
    line += "; last error: " + mpi_last_failure;
  line += '\n';
  auto const turn = std::chrono::milliseconds{100};
  std::this_thread::sleep_for(turn * std::min(rank, 8));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  mpi_job_is_ending = true;
  std::this_thread::sleep_for(turn / 2);
  if (mpi_is_usable()) MPI_Abort(MPI_COMM_WORLD, mpi_abort_code);
  std::_Exit(mpi_abort_code);
}

inline Error mpi_error(int code, int rank, std::string_view operation) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {Errc::transport, rank, std::string{operation}, "",
          std::string(text.data(), static_cast<std::size_t>(length))};
}

// Thrown, and kept for the report of who ends the job.
[[noreturn]] inline void mpi_fail(Error const& error) {
  mpi_last_failure = error.what();
  throw error;
}
inline void mpi_check(int code, std::string_view call, int peer = -1) {
  if (code != MPI_SUCCESS) mpi_fail(mpi_error(code, peer, call));
}

// Every count that MPI sees passes here.
inline int mpi_count(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw Error{Errc::invalid_argument, -1, "MPI", "", std::to_string(count) + " is more than an MPI count can hold"};
  return static_cast<int>(count);
}

// MPICH 4 hands an error that MPI_Test finds to the handler of MPI_COMM_WORLD, which usually ends the job and names no
// one, instead of to that of the message's communicator. While this lives, such errors are returned.
class MpiErrorsAreReturned {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 50000000
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

inline void MpiEnvironment::initialise(int* argc, char*** argv) {
  int initialised = 0, provided = 0;
  MPI_Initialized(&initialised);
  if (initialised) return;
  if (int const code = MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided); code != MPI_SUCCESS)
    throw detail::mpi_error(code, -1, "MPI_Init_thread");
  owner_ = true;
}

inline MpiEnvironment::~MpiEnvironment() {
  if (!owner_ || detail::mpi_job_is_ending || !detail::mpi_is_usable()) return;
  if (std::uncaught_exceptions() == exceptions_) {
    MPI_Finalize();
    return;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  detail::end_mpi_job(rank, "it leaves the scope of its MpiEnvironment by an exception");
}

}  // namespace parallax
