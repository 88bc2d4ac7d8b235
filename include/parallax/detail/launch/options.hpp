// The options of `run` on the command line: all begin with --px-. `run` takes them out of the arguments before its body runs.
#pragma once

#include <charconv>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>

#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2::detail {

// Most ranks of one process as threads: their boxes take 8 KiB for each pair.
inline constexpr int most_thread_ranks = 1024;
// Exit code of a program with a wrong command line.
inline constexpr int usage_code = 2;

// Text of --px-help.
inline constexpr std::string_view run_help =
    "options of parallax, before any --:\n"
    "  --px-ranks N     N ranks as threads of this process, from 1 to 1024\n"
    "  --px-hosts FILE  ranks as processes on the hosts that the file names, started here and by ssh\n"
    "  --px-mpi[=PATH]  these processes by mpiexec, that of PATH, of MPIEXEC, or as it is found\n"
    "  --px-output X    of these processes all are heard, with the rank before each line of others than rank 0 (all), or\n"
    "                   rank 0 alone (rank0)\n"
    "  --px-no-guard    do not compare the joined ranks with the launched processes\n"
    "  --px-help        print this, and exit\n"
    "Without --px-ranks and --px-hosts the ranks are those of the launcher (mpiexec, srun, torchrun), or one that is alone.\n";

// Content of the command line.
struct RunArguments {
  int ranks = 0;                  // 0: nothing was said
  char const* hosts = nullptr;    // the file of hosts; null: nothing was said
  bool by_mpi = false;            // ranks on hosts are started by mpiexec
  char const* mpiexec = nullptr;  // its name; null: as it is found
  bool all_speak = true;          // passes on the output of ranks on hosts, beside rank 0's
  bool guard = true, help = false;
  std::string mistake;  // in the command line, in a sentence; else empty
};

// Reads the options of `run`, and takes them out of the arguments, wrong ones as well. The first of several mistakes is kept.
// `--` and all arguments after it stay.
RunArguments take_run_arguments(int& argc, char** argv);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/options-inl.hpp"
#endif
