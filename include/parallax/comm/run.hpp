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

namespace parallax::inline v0_2 {

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
// of their own, before `run` is called or in its body. Refers to the words of `argv`, which must stay.
std::vector<std::string_view> own_arguments(int argc, char const* const* argv);

// ---- below: how it is done ----

namespace detail {

// A body called by its address.
using RunBody = FunctionRef<int(JoinedWorld&)>;

// Does the work of `run`, with a given start. `self`: a rank alone has a SelfCommunicator, else a ThreadCommunicator.
int run_ranks(int& argc, char**& argv, RunBody body, RunOptions const& options, Start const& start, bool self);

// Throws Error (misuse): the type joined is none of the types given to `run`.
[[noreturn]] void refuse_type(JoinedWorld& world);

// Returns true if a body can be called with each of the types, or with AnyCommunicator if none is named.
template <class Body, class... Communicators>
constexpr bool takes() {
  if constexpr (sizeof...(Communicators) == 0) return std::is_invocable_v<Body&, AnyCommunicator&>;
  else return (std::is_invocable_v<Body&, Communicators&> && ...);
}

// Calls `body` with the communicator as its own type, or as AnyCommunicator if no types are named. Returns its exit code.
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

}  // namespace detail

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

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/run-inl.hpp"
#endif
