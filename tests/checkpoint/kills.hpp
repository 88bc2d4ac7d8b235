// Two saves, one after the other, of which a call that touches a file kills a process or fails, and what is found afterwards: the work
// of kills.cpp, whose ranks are threads, and of mpi_kills.cpp.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "../interop/scratch.hpp"
#include "calls.hpp"
#include "hosts.hpp"
#include "trainer.hpp"

namespace parallax_test {

// ---- the calls ---------------------------------------------------------------------------------------------------------------

enum class Way { none, kill_before, kill_after, fail, cut, stop };
// Which calls are counted. Those that read a file leave it as it is: nobody need be killed at one.
enum class Kind { writing, reading, any };

// What happens to the calls below a folder, once it is set.
struct Plan {
  Way way = Way::none;
  Kind kind = Kind::writing;
  long at = -1;   // the call, from 0
  int code = 0;   // errno of one that fails
  int told = -1;  // where the name of the call is written
};
inline Plan plan;
inline std::atomic<long> calls[3];  // by kind
inline std::mutex mutex;
inline std::set<std::string> unsynced;  // files and folders that a disk has not been told of
inline std::string not_durable;

inline void tell(char const* call) {
  if (plan.told >= 0) static_cast<void>(!syscall(SYS_write, plan.told, call, std::strlen(call)));
}
[[noreturn]] inline void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Does the call in the way that is planned.
inline long passed(FileCall const& call, px::FunctionRef<long()> done, px::FunctionRef<long()> cut) {
  long const number = calls[static_cast<int>(call.reads() ? Kind::reading : Kind::writing)]++, any = calls[2]++;
  bool const counted = plan.kind == Kind::any || call.reads() == (plan.kind == Kind::reading);
  if (!counted || (plan.kind == Kind::any ? any : number) != plan.at) return done();
  tell(call.name);
  if (plan.way == Way::kill_before) die();
  if (plan.way == Way::stop) raise(SIGSTOP);
  if (plan.way == Way::fail) {
    errno = plan.code;
    return -1;
  }
  long const result = plan.way == Way::cut ? cut() : done();
  if (plan.way == Way::kill_after) die();
  return result;
}
inline void note(std::string const& path, bool dirty) {
  if (!is_below(path) || path.ends_with("/checkpoint.lock")) return;  // a lock is worth nothing after a loss of power
  std::lock_guard const lock{mutex};
  if (dirty) unsynced.insert(path);
  else unsynced.erase(path);
}
// What a generation consists of has to be on the disk before it has its name.
inline void renamed(std::string const& from, std::string const& to) {
  std::lock_guard const lock{mutex};
  std::vector<std::string> moved;
  for (std::string const& path : unsynced)
    if (path == from || path.starts_with(from + "/")) moved.push_back(path);
  if (!moved.empty() && !to.ends_with(".part") && to.rfind("/generation-") == to.rfind('/')) not_durable = moved[0];
  // And what is newer has its name there before an older one loses its own.
  bool const removes = to.ends_with(".part") && to.starts_with(from);
  if (removes && unsynced.count(folder_of(from)) > 0) not_durable = folder_of(from);
  for (std::string const& path : moved) unsynced.erase(path), unsynced.insert(to + path.substr(from.size()));
  unsynced.insert(folder_of(to));
}

}  // namespace parallax_test

inline long parallax_test::on_call(FileCall const& call, px::FunctionRef<long()> done, px::FunctionRef<long()> cut) {
  std::string_view const name = call.name;
  if (name == "pwrite") note(call.path, true);
  long const result = passed(call, done, cut);
  if (result < 0) return result;
  if (name == "open" && call.flags & O_CREAT) note(call.path, true), note(folder_of(call.path), true);
  if (name == "mkdir") note(call.path, true), note(folder_of(call.path), true);
  if (name == "fsync" || name == "unlink" || name == "rmdir") note(call.path, false);
  if (name == "rename") renamed(call.path, call.to);
  return result;
}

namespace parallax_test {

// ---- the training ------------------------------------------------------------------------------------------------------------

inline int ranks = 4;            // as many save
inline bool background = false;  // whether saves are behind the steps
inline bool apart = false;       // whether the ranks are on two hosts, which share no folder

// Below `folder`: the one that all ranks see, or those of the hosts.
inline std::vector<std::string> places(std::string const& folder) {
  return apart ? std::vector<std::string>{folder + "/host0/run", folder + "/host1/run"} : std::vector{folder};
}
inline void make_hosts(std::string const& folder) {
  if (apart) std::filesystem::create_directories(folder + "/host0"), std::filesystem::create_directories(folder + "/host1");
}
// A rank's place; `folder` is what it calls it.
struct Place {
  Place(std::string const& below, int rank) : folder{below} {
    if (apart) host.emplace(below + "/host" + std::to_string(2 * rank / ranks)), folder = "run";
  }
  std::string folder;
  std::optional<OnHost> host;
};

template <class F>
void on_ranks(int count, F&& body) {
  px::run_threads(count, body, {.deadline = std::chrono::seconds{30}});
}
inline std::uint64_t state_after(std::int64_t steps) {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    Trainer<> trainer{world};
    trainer.train_to(steps);
    sums[static_cast<std::size_t>(world.rank())] = trainer.digest();
    trainer.session.finish();
  });
  std::uint64_t sum = 0;
  for (std::uint64_t const of_rank : sums) sum += of_rank;
  return sum;
}
struct States {
  std::uint64_t first, second;  // after 2 steps, and 4
};

inline std::string left_behind(std::string const& folder) {
  for (auto const& entry : std::filesystem::recursive_directory_iterator{folder})
    if (entry.path().string().ends_with(".part")) return entry.path().string() + " is left";
  return {};
}

// Both saves, by a rank that works in `place`. "saved; saved; " if they were, else why they were refused, or what is wrong.
template <class C>
std::string save_twice_as(C& world, std::string const& place, double at_most = 600) {
  std::string said;
  Trainer trainer{world};
  trainer.at_most = at_most;
  for (std::int64_t const steps : {2, 4}) {
    trainer.train_to(steps);
    std::uint64_t const before = trainer.digest();
    try {
      background ? trainer.save_behind(place) : static_cast<void>(trainer.save(place));
      said += "saved; ";
      std::lock_guard const lock{mutex};
      if (plan.way == Way::none && !unsynced.empty()) not_durable = *unsynced.begin();
    } catch (px::Error const& error) {
      said += error.code() == px::Errc::file ? error.what() : "not of a file: " + std::string{error.what()};
    }
    if (trainer.digest() != before) said += "the state has changed";
  }
  trainer.train_to(5);
  trainer.session.finish();
  return said;
}
// The same on all ranks. Says what is wrong; `refused`: a save told all ranks the same of a file.
inline std::string save_twice(std::string const& folder, int& refused) {
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    Place const place{folder, world.rank()};
    said[static_cast<std::size_t>(world.rank())] = save_twice_as(world, place.folder);
  });
  for (std::string const& text : said)
    if (text != said[0]) return "ranks were told otherwise: " + said[0] + " | " + text;
  refused = said[0] != "saved; saved; ";
  bool const known = said[0].find("not of a file") == std::string::npos && said[0].find("changed") == std::string::npos;
  return known ? "" : said[0];
}

// Restores by `count` ranks and saves again. Returns the steps of what was there, 0 where nothing was.
inline std::int64_t look(std::string const& folder, int count, States const& states, std::string& wrong) {
  std::int64_t steps = 0, generation = 0;
  std::vector<std::string> said(static_cast<std::size_t>(count));
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(count)), kept(sums), again(sums);
  on_ranks(count, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    Place const place{folder, world.rank()};
    Trainer<> trainer{world};
    try {
      auto const restored = trainer.restore(place.folder);
      if (rank == 0) steps = restored.step;
      sums[rank] = trainer.digest();
    } catch (px::Error const& error) {
      said[rank] = error.what();
      trainer.train_to(2);
    }
    kept[rank] = trainer.digest();
    try {
      auto const saved = trainer.save(place.folder);
      if (rank == 0) generation = saved.generation;
    } catch (px::Error const& error) {
      said[rank] += std::string{"the next save: "} + error.what();
    }
    trainer.session.finish();
  });
  std::uint64_t sum = 0;
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    sum += sums[rank];
    if (said[rank] != said[0]) wrong += "ranks were told otherwise; ";
  }
  if (steps == 0 && said[0].find("it has no complete generation of a checkpoint") == std::string::npos) wrong += said[0];
  if (steps != 0 && !said[0].empty()) wrong += said[0];
  if (steps != 0 && steps != 2 && steps != 4) wrong += "it is of step " + std::to_string(steps) + "; ";
  if ((steps == 2 && sum != states.first) || (steps == 4 && sum != states.second)) wrong += "it is a mixture; ";
  wrong += left_behind(folder);
  for (std::string const& place : places(folder))
    if (px::detail::generations_in(place) != std::vector<std::int64_t>{generation}) wrong += "other generations stay; ";
  on_ranks(count, [&](px::ThreadCommunicator& world) {
    Place const place{folder, world.rank()};
    Trainer<> trainer{world};
    trainer.restore(place.folder);
    again[static_cast<std::size_t>(world.rank())] = trainer.digest();
    trainer.session.finish();
  });
  std::uint64_t difference = 0;
  for (std::size_t rank = 0; rank < kept.size(); ++rank) difference += again[rank] - kept[rank];
  if (difference != 0) wrong += "the next save is of something else; ";
  return steps;
}

// "restored" by `count` ranks, "refused: " and why, if all ranks were told the same; else what is wrong.
inline std::string restore_once(int count, States const& states) {
  std::vector<std::string> said(static_cast<std::size_t>(count));
  std::vector<std::uint64_t> sums(said.size());
  on_ranks(count, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    Place const place{calls_below, world.rank()};
    Trainer<> trainer{world};
    try {
      trainer.restore(place.folder);
      sums[rank] = trainer.digest();
      trainer.session.finish();
      said[rank] = "restored";
    } catch (px::Error const& error) {
      said[rank] = (error.code() == px::Errc::file ? "refused: " : "not of a file: ") + std::string{error.what()};
    }
  });
  std::uint64_t sum = 0;
  for (std::uint64_t const of_rank : sums) sum += of_rank;
  for (std::string const& text : said)
    if (text != said[0]) return "ranks were told otherwise: " + said[0] + " | " + text;
  return said[0] == "restored" && sum != states.second ? "a mixture was restored" : said[0];
}

// A child process that does `body`, and what it wrote to `told`; `killed`: whether by SIGKILL.
template <class F>
std::string in_child(F&& body, bool& killed) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  pid_t const child = fork();
  if (child == 0) {
    syscall(SYS_close, ends[0]);
    plan.told = ends[1];
    body();
    _exit(0);
  }
  syscall(SYS_close, ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  syscall(SYS_close, ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (!killed && status != 0) text += "; the child ended by " + std::to_string(status);
  return text;
}

// In a process of its own, for no thread of this one may be there when it forks. Ends the program where there are no two states.
inline States known_states() {
  bool killed = false;
  States states{};
  std::string const measured = in_child(
      [&] {
        States const known{state_after(2), state_after(4)};
        static_cast<void>(!write(plan.told, &known, sizeof(known)));
      },
      killed);
  if (measured.size() == sizeof(states)) std::memcpy(&states, measured.data(), sizeof(states));
  if (states.first == states.second) std::printf("FAILED: there are no states\n"), std::exit(1);
  return states;
}
// The steps of what is found by `count` ranks, as text, and behind them what is wrong. In a process of its own.
inline std::string looked(std::string const& folder, int count, States const& states) {
  bool died = false;
  std::string found = in_child(
      [&] {
        std::string wrong;
        std::int64_t const steps = look(folder, count, states, wrong);
        tell(std::to_string(steps).c_str());
        if (!wrong.empty()) tell((" " + wrong).c_str());
      },
      died);
  return died ? found + ", killed" : found;
}

}  // namespace parallax_test
