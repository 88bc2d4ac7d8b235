// The guard: compares the size of the joined world with the number of processes started by the launcher. `run` and `run_mpi`
// ask it before the body runs, so four processes never train as four times «rank 0 of 1».
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2::detail {

// A look-up of an environment variable by its name: its value, or null. Programs give getenv's, tests a table's.
using Environment = FunctionRef<char const*(char const*)>;

// Facts about a process's start: its environment, and its own id.
struct Start {
  Environment variable;
  std::int64_t process;
};

// Launcher of several processes, as far as the guard can tell: nobody; a launcher of MPI; srun; a launcher with RANK and
// WORLD_SIZE, such as torchrun; or flux run without PMI.
enum class Launcher { none, mpi, slurm, torch, flux };

// Number of processes launched together, this one included, and the variable that says so.
struct Launched {
  Launcher by = Launcher::none;
  char const* variable = nullptr;  // null if no variable says so
  int size = 1;
};

// The world joined by this process.
struct Membership {
  // Way of joining: "MPI", "threads", or the name of another entrance. Empty: the process is alone.
  std::string_view by;
  int size = 1;                               // of the joined world
  bool has_mpi = false, has_sockets = false;  // ways in the program
};

// Returns the launch told by the environment. Variables are inherited: an outer launcher's may be there beside those of this
// process's launcher. Of several the guard takes
//   - srun's, if this process is itself the task (SLURM_TASK_PID),
//   - else those of an MPI launcher, PMI_SIZE or OMPI_COMM_WORLD_SIZE: the smaller, if an MPI started another one,
//   - else WORLD_SIZE, if RANK is there, or Kubernetes' JOB_COMPLETION_INDEX,
//   - else srun's SLURM_STEP_NUM_TASKS, if SLURM_PROCID is there. A batch script has no such variable, or an inherited one
//     unequal to its SLURM_NTASKS; and the shell of an allocation has the SLURM_STEP_ID of no step.
// No rule can tell one case: a program started by a rank as its own tool inherits all variables of the rank.
Launched launched(Start const& start);

// Returns the reason against this start, in a sentence with the launched number, the joined world and the remedy; empty if it
// is right. A start is wrong if more processes were launched than joined, or if each of several processes is asked for threads.
// Empty, too, if PARALLAX_NO_GUARD is set, to something other than 0.
std::string objection(Start const& start, Membership const& joined);

// Throws Error (misuse) with the `objection`, if there is one. `operation`: "run" or "run_mpi"; "run" has options of its own.
void check_start(Start const& start, Membership const& joined, std::string_view operation);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/guard-inl.hpp"
#endif
