// Bodies of parallax/detail/launch/guard.hpp.
#pragma once

#include "parallax/detail/launch/guard.hpp"

namespace parallax::inline v0_2::detail {

// Returns the number in a variable, or -1 if it is missing, no number, or longer than any number of a launcher.
inline std::int64_t number_in(Environment variable, char const* name) {
  char const* const text = variable(name);
  if (!text || !*text) return -1;
  std::int64_t number = 0;
  for (char const* digit = text; *digit; ++digit) {
    if (*digit < '0' || *digit > '9' || number > 1'000'000'000'000) return -1;
    number = 10 * number + (*digit - '0');
  }
  return number;
}

// A launcher's variable with the number of processes, and its variable with the rank, or null.
struct Telling {
  Launcher by;
  char const *size, *rank;
};

// Returns the launch told by one variable; nothing if its value is no number of processes, or if the rank is not below it.
inline Launched told_by(Start const& start, Telling const& telling) {
  std::int64_t const size = number_in(start.variable, telling.size);
  std::int64_t const rank = telling.rank ? number_in(start.variable, telling.rank) : 0;
  if (size < 1 || size > 1'000'000'000 || rank < 0 || rank >= size) return {};
  return {telling.by, telling.size, static_cast<int>(size)};
}

// Returns true if srun's variables, for `size` tasks, are set in a process of no step.
inline bool in_no_step(Start const& start, int size) {
  constexpr std::int64_t first_of_no_step = 0xffff'fff0;
  std::int64_t const tasks = number_in(start.variable, "SLURM_NTASKS");
  return (tasks >= 0 && tasks != size) || number_in(start.variable, "SLURM_STEP_ID") >= first_of_no_step;
}

PARALLAX_INLINE Launched launched(Start const& start) {
  Telling const tellings[] = {{Launcher::slurm, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
                              {Launcher::mpi, "PMI_SIZE", nullptr},
                              {Launcher::mpi, "OMPI_COMM_WORLD_SIZE", nullptr},
                              {Launcher::torch, "WORLD_SIZE", start.variable("RANK") ? "RANK" : "JOB_COMPLETION_INDEX"},
                              {Launcher::flux, "FLUX_JOB_SIZE", "FLUX_TASK_RANK"}};
  Launched told[5];
  for (int i = 0; i < 5; ++i) told[i] = told_by(start, tellings[i]);
  auto& [slurm, pmi, open_mpi, torch, flux] = told;
  if (in_no_step(start, slurm.size)) slurm = {};
  if (slurm.variable && number_in(start.variable, "SLURM_TASK_PID") == start.process) return slurm;
  if (pmi.variable && !(open_mpi.variable && open_mpi.size < pmi.size)) return pmi;
  if (open_mpi.variable) return open_mpi;
  if (torch.variable) return torch;
  return flux.variable ? flux : slurm;
}

// Returns the advice for a world smaller than the launched one. Sockets join by PMI-1; Open MPI's launcher does not speak it.
inline char const* advice(Launched const& launched, Membership const& joined) {
  if (joined.by == "threads") return "leave out --px-ranks, or launch one process";
  if (!joined.by.empty() && joined.by != "MPI") return "let its variables name all that were launched";
  if (launched.by == Launcher::slurm && joined.has_mpi)
    return "start it by srun --mpi=pmi2, or as srun --mpi=list and your MPI have it";
  if (launched.by == Launcher::slurm && joined.has_sockets) return "start it by srun --mpi=pmi2";
  if (launched.by == Launcher::slurm)
    return "include parallax/comm/socket.hpp, or parallax/comm/mpi.hpp and link MPI, and start it by srun --mpi=pmi2";
  if (launched.by == Launcher::flux && (joined.has_sockets || joined.has_mpi))
    return "start it by flux run -o pmi=simple, or as your MPI has it";
  if (launched.by == Launcher::flux)
    return "include parallax/comm/socket.hpp, or parallax/comm/mpi.hpp and link MPI, and start it by flux run -o pmi=simple";
  if (launched.by == Launcher::torch) return "include parallax/comm/socket.hpp, by which ranks join";
  bool const by_pmi = std::string_view{launched.variable} == "PMI_SIZE";
  if (!joined.has_mpi && !joined.has_sockets && by_pmi)
    return "include parallax/comm/socket.hpp, by which ranks join, or parallax/comm/mpi.hpp, and link MPI";
  if (!joined.has_mpi) return "include parallax/comm/mpi.hpp, and link MPI";
  return "start it by the mpiexec of the MPI in the program, or link the MPI of that launcher";
}

PARALLAX_INLINE std::string objection(Start const& start, Membership const& joined) {
  char const* const off = start.variable("PARALLAX_NO_GUARD");
  if (off && *off && std::string_view{off} != "0") return {};
  Launched const all = launched(start);
  bool const by_threads = joined.by == "threads";
  if (all.size <= (by_threads ? 1 : joined.size)) return {};
  std::string text = parallax::joined({all.size, " processes were launched together (", all.variable, "=", all.size, "), "});
  if (by_threads) append(text, {"and each was given --px-ranks ", joined.size});
  else if (joined.by.empty()) append(text, {"but this one is alone, as rank 0 of 1"});
  else append(text, {"but this one joined ", joined.size, " by ", joined.by});
  append(text, {": ", advice(all, joined)});
  return text;
}

PARALLAX_INLINE void check_start(Start const& start, Membership const& joined, std::string_view operation) {
  std::string text = objection(start, joined);
  if (text.empty()) return;
  append(text, {"; if each is meant to be apart, say ", operation == "run" ? "--px-no-guard, or " : "", "PARALLAX_NO_GUARD=1"});
  throw Error{Errc::misuse, -1, operation, "", text};
}

}  // namespace parallax::detail
