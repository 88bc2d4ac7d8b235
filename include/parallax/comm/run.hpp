// The front door of a program: `run` calls its body on every rank of this process, be they threads, one process of a job, or
// one rank alone. `main` returns its result.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/comm/self.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/launch/entrances.hpp"
#include "parallax/detail/launch/guard.hpp"
#include "parallax/detail/launch/last_words.hpp"
#include "parallax/detail/launch/launcher.hpp"
#include "parallax/detail/launch/mpiexec.hpp"
#include "parallax/detail/launch/options.hpp"

namespace parallax {

// Runs `body(AnyCommunicator&)` on every rank of this process, and returns the process's exit status: the result of `body` if
// an int, else 0; of threads the first other than 0, by rank. The ranks are
//   1. N threads, with --px-ranks N on the command line,
//   2. else, with --px-hosts FILE, processes on the hosts named in the file (format: detail/launch/resources.hpp): this process
//      starts them, and joins none. The program includes comm/socket.hpp, by which they join, or, with --px-mpi on the command
//      line, comm/mpi.hpp: this process then becomes their mpiexec,
//   3. else those of the launcher of this process, if the program has an entrance to them: comm/mpi.hpp is one, and
//      comm/socket.hpp, in any order of includes (detail/launch/entrances.hpp tells how a backend becomes another),
//   4. else as many threads as the options say, or this process alone: one rank of a SelfCommunicator.
// Takes its options, all beginning with --px-, out of the arguments: --px-help prints them. Then `argc` and `argv` tell of the
// rest, in an array as long-lived as the program. The former array stays as it was: copies of both, captured by a body with
// [=], tell the whole command line, and own_arguments the program's part of it. An unknown option, a wrong number, or a bad
// file of hosts, is a line on stderr and the result 2. With --px-hosts the result is the launch's: 0, or the exit status of the
// rank that failed first. When a rank leaves by an exception, its words, with the rank, are the last line on stderr, and the
// result is `abort_code`, or the job ends with it, as under run_mpi. Two errors (misuse) end a program so before `body` runs:
// more processes were launched than joined (detail/launch/guard.hpp), and --px-ranks in each of several processes.
//   int main(int argc, char** argv) {
//     return px::run(argc, argv, [](px::AnyCommunicator& world) { … });
//   }
// Types of communicators may be named, for a body that is a template: it is called with the chosen one, and compiled for each.
// Error (misuse) if the chosen one is not named. A rank alone has a ThreadCommunicator unless SelfCommunicator is named.
//   px::run<px::ThreadCommunicator, px::MpiCommunicator>(argc, argv, [](auto& world) { … });
template <class... Communicators, class Body>
int run(int& argc, char**& argv, Body&& body, RunOptions options = {});

// Local. Returns the command line's arguments behind the program's name, without those for `run`: for programs with arguments
// of their own, before `run` is called or in its body. Refers to `argv`.
std::vector<std::string_view> own_arguments(int argc, char const* const* argv);

// ---- below: how it is done ----

namespace detail {

// A body called by its address.
using RunBody = FunctionRef<int(JoinedWorld&)>;

// `run`, with a given start. `self`: a rank alone has a SelfCommunicator, else a ThreadCommunicator.
int run_ranks(int& argc, char**& argv, RunBody body, RunOptions const& options, Start const& start, bool self);

// Throws Error (misuse): the type joined is none of the types given to `run`.
[[noreturn]] void refuse_type(JoinedWorld& world);

// Returns true if a body can be called with each of the types, or with AnyCommunicator if none is named.
template <class Body, class... Communicators>
constexpr bool takes() {
  if constexpr (sizeof...(Communicators) == 0) return std::is_invocable_v<Body&, AnyCommunicator&>;
  else return (std::is_invocable_v<Body&, Communicators&> && ...);
}

// Calls `body` with the communicator as its own type, or as AnyCommunicator if no types are named.
template <class... Communicators, class Body>
int call_body(Body& body, JoinedWorld& world) {
  if constexpr (sizeof...(Communicators) == 0) {
    return exit_code_of(body, world.any());
  } else {
    int status = 0;
    auto const called = [&]<class C>(C* own) { return own && (status = exit_code_of(body, *own), true); };
    if (!(called(world.as<Communicators>()) || ...)) refuse_type(world);
    return status;
  }
}

#if PARALLAX_LAUNCH_BODIES
// The exception of a rank as an Error, as seen by its peers, and the rank.
struct LeftByError : Error {
  LeftByError(int at, Error const& error) : Error{error}, rank_of_thread{at} {}
  int rank_of_thread;
};

// Runs `body` on N threads. Returns the first status other than 0, by rank.
inline int run_on_threads(int size, RunBody body, RunOptions const& options) {
  std::vector<int> statuses(static_cast<std::size_t>(size));
  auto const on_rank = [&](ThreadCommunicator& own) {
    try {
      JoinedWorld world{own};
      statuses[static_cast<std::size_t>(own.rank())] = body(world);
    } catch (...) {
      throw LeftByError{own.rank(), current_error(own.rank(), "the training of a rank")};
    }
  };
  try {
    run_threads(size, on_rank, {.deadline = options.deadline});
  } catch (LeftByError const& left) {
    return end_by(left.rank_of_thread, left);
  }
  for (int const status : statuses)
    if (status != 0) return status;
  return 0;
}

// Runs `body` on one rank alone.
inline int run_alone(RunBody body) {
  SelfCommunicator own;
  JoinedWorld world{own};
  return body(world);
}

// Neither is joined with others: whatever is wrong ends this process alone.
inline int run_here(int threads, RunBody body, RunOptions const& options, Start const& start, bool self) {
  Birth const birth;
  try {
    Membership const joined{threads ? "threads" : "", threads ? threads : 1, has_entrance("MPI"), has_entrance("sockets")};
    if (options.guard) check_start(start, joined, "run");
    int const by_itself = threads ? threads : options.threads;
    if (by_itself == 0 && self) return run_alone(body);
    return run_on_threads(by_itself ? by_itself : 1, body, options);
  } catch (...) {
    end_child(birth, 0);
    return end_by(0, current_error(0, "the training of a rank"));
  }
}

// Runs processes on hosts, each of this program with the same arguments, but for those of `run`.
inline int run_on_hosts(int argc, char** argv, RunArguments const& said, Start const& start) {
  try {
    if (Entrance const* const entrance = entrance_of(start.variable))
      throw Error{
          Errc::misuse, -1, "run", "",
          joined({"--px-hosts starts all ranks by itself, but this process was started as one of several by a launcher of ",
                  entrance->name, ": start it without that"})};
    Entrance const* const mpi = entrance_by_name("MPI");
    if (said.by_mpi && !mpi)
      throw Error{Errc::misuse, -1, "run", "",
                  "ranks that mpiexec starts join by MPI: include parallax/comm/mpi.hpp, and link MPI"};
    if (!said.by_mpi && !has_entrance("sockets"))
      throw Error{Errc::misuse, -1, "run", "",
                  "ranks on hosts join by sockets: include parallax/comm/socket.hpp, or, with MPI, say --px-mpi"};
    char program[4096];
    ::ssize_t const length = ::readlink("/proc/self/exe", program, sizeof(program));
    if (length < 0) throw Error{Errc::transport, -1, "run", "", "the system does not tell where this program is"};
    std::vector<std::string> command{std::string(program, static_cast<std::size_t>(length))};
    for (int i = 1; i < argc; ++i) command.push_back(argv[i]);
    Resources const resources = read_resources(said.hosts);
    if (said.by_mpi) become_mpiexec(said.mpiexec, mpi->library(), resources, command, said.all_speak);
    return launch(resources, command, {.all_speak = said.all_speak});
  } catch (Error const& error) {
    say_and_linger(joined({error.what(), "\n"}));
    return error.code() == Errc::invalid_argument || error.code() == Errc::file ? usage_code : abort_code;
  }
}

// Reads the options of `run`. If there are any, `argc` and `argv` then tell of an array without them.
inline RunArguments read_run_arguments(int& argc, char**& argv) {
  static auto& arrays = *new std::vector<std::vector<char*>>;  // for good: threads may outlive statics
  std::vector<char*> left(argv, argv + argc);
  left.push_back(nullptr);
  int count = argc;
  RunArguments said = take_run_arguments(count, left.data());
  if (count == argc) return said;
  argc = count;
  argv = arrays.emplace_back(std::move(left)).data();
  return said;
}

PARALLAX_INLINE int run_ranks(int& argc, char**& argv, RunBody body, RunOptions const& options, Start const& start, bool self) {
  RunArguments const said = read_run_arguments(argc, argv);
  if (!said.mistake.empty()) return say_and_linger(joined({"parallax: ", said.mistake, "\n"})), usage_code;
  if (said.help) return std::fwrite(run_help.data(), 1, run_help.size(), stdout), 0;
  if (said.hosts) return run_on_hosts(argc, argv, said, start);
  RunOptions const chosen{options.deadline, options.guard && said.guard, options.threads};
  Entrance const* const entrance = said.ranks ? nullptr : entrance_of(start.variable);
  if (!entrance) return run_here(said.ranks, body, chosen, start, self);
  speak_as_rank();
  Birth const birth;
  auto const guarded = [&](JoinedWorld& world) {
    if (chosen.guard)
      check_start(start, {entrance->name, world.any().size(), has_entrance("MPI"), has_entrance("sockets")}, "run");
    try {
      return body(world);
    } catch (...) {
      end_child(birth, world.any().rank());
      throw;
    }
  };
  try {
    return entrance->join(argc, argv, chosen, guarded);
  } catch (...) {
    return end_by(0, current_error(-1, "run"));
  }
}

PARALLAX_INLINE void refuse_type(JoinedWorld& world) {
  throw Error{Errc::misuse, world.any().rank(), "run", "",
              joined({"the ranks are of a ", world.type(), ", which is none of the types that run was given: add it to them"})};
}
#endif

}  // namespace detail

#if PARALLAX_LAUNCH_BODIES
PARALLAX_INLINE std::vector<std::string_view> own_arguments(int argc, char const* const* argv) {
  std::vector<char*> all;
  for (int i = 0; i < argc; ++i) all.push_back(const_cast<char*>(argv[i]));  // none of the characters is written
  all.push_back(nullptr);
  static_cast<void>(detail::take_run_arguments(argc, all.data()));
  return {all.begin() + (argc > 0 ? 1 : 0), all.begin() + argc};
}
#endif

template <class... Communicators, class Body>
int run(int& argc, char**& argv, Body&& body, RunOptions options) {
  constexpr bool threads = (std::is_same_v<Communicators, ThreadCommunicator> || ...);
  constexpr bool self = !threads || (std::is_same_v<Communicators, SelfCommunicator> || ...);
  constexpr bool called = detail::takes<Body, Communicators...>();
  static_assert(
      called,
      "parallax: the body of run takes a px::AnyCommunicator&, or each of the types of communicators that run is given");
  if constexpr (called) {
    auto const call = [&](JoinedWorld& world) { return detail::call_body<Communicators...>(body, world); };
    auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
    return detail::run_ranks(argc, argv, call, options, {variable, getpid()}, self);
  } else {
    return detail::usage_code;
  }
}

}  // namespace parallax
