// The guard: whether the world that a process has joined is as large as what its launcher started. `run` and `run_mpi` ask it
// before the body runs, so that four processes never train as four times «rank 0 of 1».
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2::detail {

// The value of an environment variable, or null. Programs give getenv's, tests a table's.
using Environment = FunctionRef<char const*(char const*)>;

// What a process can know of how it was started: its environment, and its own id.
struct Start {
  Environment variable;
  std::int64_t process;
};

// Who started several processes together, as far as the guard can tell: nobody; a launcher of MPI; srun; one that says RANK and
// WORLD_SIZE, as torchrun does; or flux run, where it serves no PMI.
enum class Launcher { none, mpi, slurm, torch, flux };

// What was launched together with this process, itself included, and which variable says so.
struct Launched {
  Launcher by = Launcher::none;
  // Null where nobody says so.
  char const* variable = nullptr;
  int size = 1;
};

// What this process has joined.
struct Membership {
  // By what: "MPI", "threads", or the name of another entrance. Empty: it is alone.
  std::string_view by;
  // Ranks of that world.
  int size = 1;
  // Whether the program can join by MPI, and by sockets.
  bool has_mpi = false, has_sockets = false;
};

// What the environment says was launched. Variables are inherited, so that those of an outer launcher may be there beside those
// of the one that started this process. Of several the guard takes
//   - srun's, where this process is itself the task (SLURM_TASK_PID),
//   - else those of an MPI launcher, PMI_SIZE or OMPI_COMM_WORLD_SIZE: the smaller, where an MPI started another one,
//   - else WORLD_SIZE, if RANK is there, or Kubernetes' JOB_COMPLETION_INDEX,
//   - else srun's SLURM_STEP_NUM_TASKS, if SLURM_PROCID is there. A batch script has no such variable, or one that it inherited,
//     which differs from its SLURM_NTASKS; and the shell of an allocation has a SLURM_STEP_ID that no step has.
// What no rule can tell: a program that a rank starts as its own tool inherits all variables of the rank.
Launched launched(Start const& start);

// Why this start is wrong, in a sentence with what was launched, what was joined and what to do; empty where it is right. It is
// wrong where more was launched than was joined, and where threads are asked for in each of several processes. Empty, too,
// where PARALLAX_NO_GUARD is set, to something other than 0.
std::string objection(Start const& start, Membership const& joined);

// Throws Error (misuse) with that sentence. `operation`: "run" or "run_mpi", of which the first has options of its own.
void check_start(Start const& start, Membership const& joined, std::string_view operation);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/guard-inl.hpp"
#endif
