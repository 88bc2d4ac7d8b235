// Starts the ranks of a job as processes, here and by ssh on other hosts, and watches over them until all have ended. `px::run`
// calls `launch` if `--px-hosts` names a file; so may a program that starts others.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/detail/comm/owned_descriptor.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/system.hpp"
#include "parallax/detail/launch/resources.hpp"

namespace parallax::inline v0_2 {

// Settings of `launch` for the start and the end of ranks.
struct LaunchOptions {
  // Way to other hosts: a command and its arguments. `-T`, `-p PORT` and the host are put behind them.
  std::vector<std::string> ssh{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"};
  int port = 0;       // of rank 0; 0: a free one
  double grace = 10;  // seconds for ranks to end by themselves after the failure of one; then they are ended
  // Passes on the output of all ranks, not of rank 0 alone, each line with its rank before it.
  bool all_speak = true;
};

// Runs `command` as every rank of the job, and returns when all have ended: 0 if all ended with 0, else the exit status of the
// first rank to fail (128 and the signal's number if it was killed), after a line on stderr with its name. A rank finds RANK,
// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and PARALLAX_JOB_KEY in its environment;
// CUDA_VISIBLE_DEVICES if its host has devices, and PARALLAX_MODE if the file says one. By ssh it has this working directory,
// and of this environment the names that begin with PARALLAX_, OMP_, NCCL_ or CUDA_, and LD_LIBRARY_PATH. A line on stderr
// tells the names that no shell can export. No rank has a name that begins with PMI_, PMIX_ or OMPI_: an mpiexec may have
// started this process. Its standard input is empty. Rank 0 shares this process's output. SIGINT, SIGTERM and SIGHUP are passed
// on to the ranks, by ssh SIGINT as SIGTERM; the second one ends them. Killing this process kills them. Throws Error
// (invalid_argument) if other hosts cannot reach the first, and Error (transport) if no process can be made.
int launch(Resources const& resources, std::span<std::string const> command, LaunchOptions const& options = {});

namespace detail {

// Returns a word for a shell: between quotation marks.
std::string shell_word(std::string_view word);

// Returns the name at the beginning of a setting of the environment, NAME=VALUE; empty if it has none.
std::string_view name_in(std::string_view setting);

// Returns true if other hosts are to have a setting of the environment.
bool goes_along(std::string_view setting);

// Returns true if a shell can export a variable of this name. Such a name means nothing else to a shell, nor to an mpiexec: it
// consists of letters, digits and underscores. The environment may have other names, as Docker passes them on.
bool can_be_exported(std::string_view name);

// Says on stderr the variables that other hosts cannot have because of their names.
void say_what_stays();

// Sends the output and errors of this process from now on through another process. It puts `prefix` before each line, or drops
// the line unless `heard`. Being nobody's child, it is found by no wait, and lasts as long as anybody can write to its input.
// Throws Error (transport) if no process can be made.
void pass_on_lines(std::string const& prefix, bool heard);

}  // namespace detail

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/launcher-inl.hpp"
#endif
