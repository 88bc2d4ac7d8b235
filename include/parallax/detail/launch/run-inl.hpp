// Bodies of parallax/comm/run.hpp.
#pragma once

#include "parallax/comm/run.hpp"

namespace parallax::inline v0_2::detail {

// The exception of a rank as an Error, as seen by its peers, and the rank.
struct LeftByError : Error {
  LeftByError(int at, Error const& error) : Error{error}, rank_of_thread{at} {}
  int rank_of_thread;
};

// Runs `body` on N threads. Returns the first status other than 0, by rank; `abort_code` if a rank leaves by an exception.
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

// Runs `body` on threads, or on one rank alone, and returns the exit code. No others join: any error ends this process alone.
inline int run_here(int threads, RunBody body, RunOptions const& options, Start const& start, bool self) {
  Birth const birth;
  try {
    Membership const joined{threads ? "threads" : "", threads ? threads : 1, has_entrance("MPI"), has_entrance("sockets")};
    if (options.guard) check_start(start, joined, "run");
    int const by_itself = threads ? threads : options.threads;
    if (by_itself != 0 || !self) return run_on_threads(by_itself ? by_itself : 1, body, options);
    SelfCommunicator own;
    JoinedWorld world{own};
    return body(world);
  } catch (...) {
    end_child(birth, 0);
    return end_by(0, current_error(0, "the training of a rank"));
  }
}

// Runs processes on hosts, each of this program with the arguments of this one but `run`'s, and returns the exit code.
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
              joined({"the ranks are of a ", world.type(), ", none of the types given to run: add it to them"})};
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE std::vector<std::string_view> own_arguments(int argc, char const* const* argv) {
  std::vector<char*> all;
  for (int i = 0; i < argc; ++i) all.push_back(const_cast<char*>(argv[i]));  // none of the characters is written
  all.push_back(nullptr);
  static_cast<void>(detail::take_run_arguments(argc, all.data()));
  return {all.begin() + (argc > 0 ? 1 : 0), all.begin() + argc};
}

}  // namespace parallax
