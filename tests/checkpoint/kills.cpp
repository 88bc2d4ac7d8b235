// Two saves, one after the other, that are killed before and after each call that touches a file, or of which a call fails: whoever
// comes afterwards finds the one generation or the other, whole, and saves again. The calls are this program's own definitions; no
// disk is waited for, but what a disk would have been told before a generation gets its name is checked.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// ---- the calls ---------------------------------------------------------------------------------------------------------------

enum class Way { none, kill_before, kill_after, fail, cut };

// What happens to the calls below a folder, once it is set.
struct Plan {
  std::string below;
  Way way = Way::none;
  long at = -1;   // the call, from 0
  int code = 0;   // errno of one that fails
  int told = -1;  // where the name of the call is written
};
Plan plan;
std::atomic<bool> armed{false};
std::atomic<long> calls{0};
std::mutex mutex;
std::map<int, std::string> opened;  // what a descriptor is of
std::set<std::string> unsynced;     // files and folders that a disk has not been told of
std::string not_durable;

std::string folder_of(std::string const& path) { return path.substr(0, path.rfind('/')); }
std::string clean(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}
bool is_below(std::string_view path) { return armed && path.starts_with(plan.below); }
std::string path_of(int fd) {
  std::lock_guard const lock{mutex};
  auto const found = opened.find(fd);
  return found == opened.end() ? std::string{} : found->second;
}
void tell(char const* call) {
  if (plan.told >= 0) static_cast<void>(!syscall(SYS_write, plan.told, call, std::strlen(call)));
}
[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Does `call` in the way that is planned. `cut`: does less of it.
template <class F, class Cut>
long passed(char const* name, std::string const& path, F&& call, Cut&& cut) {
  if (!is_below(path)) return call();
  long const number = calls++;
  if (number != plan.at) return call();
  tell(name);
  if (plan.way == Way::kill_before) die();
  if (plan.way == Way::fail) {
    errno = plan.code;
    return -1;
  }
  long const result = plan.way == Way::cut ? cut() : call();
  if (plan.way == Way::kill_after) die();
  return result;
}
template <class F>
long passed(char const* name, std::string const& path, F&& call) {
  return passed(name, path, call, call);
}
void note(std::string const& path, bool dirty) {
  if (!is_below(path)) return;
  std::lock_guard const lock{mutex};
  if (dirty) unsynced.insert(clean(path));
  else unsynced.erase(clean(path));
}
// What a generation consists of has to be on the disk before it has its name.
void renamed(std::string const& from, std::string const& to) {
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

}  // namespace

extern "C" {

int open(char const* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t const mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  auto const call = [&] { return syscall(SYS_openat, AT_FDCWD, path, flags, mode); };
  int const fd = static_cast<int>(passed("open", path, call));
  if (fd >= 0 && is_below(path)) {
    std::lock_guard const lock{mutex};
    opened[fd] = clean(path);
    if (flags & O_CREAT) unsynced.insert(clean(path)), unsynced.insert(folder_of(path));
  }
  return fd;
}
int close(int fd) {
  std::string const path = path_of(fd);
  {
    std::lock_guard const lock{mutex};
    opened.erase(fd);  // before another thread is given the number
  }
  return static_cast<int>(passed("close", path, [&] { return syscall(SYS_close, fd); }));
}
ssize_t pwrite(int fd, void const* bytes, size_t size, off_t at) {
  std::string const path = path_of(fd);
  note(path, true);
  return passed(
      "pwrite", path, [&] { return syscall(SYS_pwrite64, fd, bytes, size, at); },
      [&] { return syscall(SYS_pwrite64, fd, bytes, size > 1 ? size / 2 : size, at); });
}
int fsync(int fd) {
  std::string const path = path_of(fd);
  long const result = passed("fsync", path, [] { return 0L; });
  if (result == 0) note(path, false);
  return static_cast<int>(result);
}
int ftruncate(int fd, off_t size) noexcept {
  return static_cast<int>(passed("ftruncate", path_of(fd), [&] { return syscall(SYS_ftruncate, fd, size); }));
}
int rename(char const* from, char const* to) noexcept {
  long const result = passed("rename", from, [&] { return syscall(SYS_rename, from, to); });
  if (result == 0 && is_below(from)) renamed(from, to);
  return static_cast<int>(result);
}
int mkdir(char const* path, mode_t mode) noexcept {
  long const result = passed("mkdir", path, [&] { return syscall(SYS_mkdir, path, mode); });
  if (result == 0) note(path, true), note(folder_of(path), true);
  return static_cast<int>(result);
}
int unlink(char const* path) noexcept {
  long const result = passed("unlink", path, [&] { return syscall(SYS_unlink, path); });
  if (result == 0) note(path, false);
  return static_cast<int>(result);
}
int rmdir(char const* path) noexcept {
  long const result = passed("rmdir", path, [&] { return syscall(SYS_rmdir, path); });
  if (result == 0) note(path, false);
  return static_cast<int>(result);
}

}  // extern "C"

namespace {

// ---- the training ------------------------------------------------------------------------------------------------------------

constexpr int ranks = 4;

struct Trainer {
  explicit Trainer(px::ThreadCommunicator& world) : session{world} {}

  void train_to(std::int64_t steps) {
    while (session.steps() < steps) {
      std::vector<std::int64_t> const ids{7 * session.rank() + session.steps(), 5, 199};
      session.step(px::grad(words, ids, std::vector<float>(12, 0.25f)), px::grad(bias, std::vector<float>(1100, 0.5f)));
      ++epoch;
    }
  }
  px::Saved save(std::string const& folder) {
    return session.save(folder, {.keep = 1}, words, bias, px::shared_value("epoch", epoch));
  }
  px::Restored restore(std::string const& folder) {
    return session.restore(folder, {}, words, bias, px::shared_value("epoch", epoch));
  }
  // The sum over all ranks of a hash of each row, and of what all ranks have: a number for the whole state.
  std::uint64_t digest() {
    std::uint64_t sum = 0;
    auto const rows = words.local(), slots = words.slot("sum");
    for (std::int64_t i = 0; i < rows.rows; ++i)
      sum += px::detail::checksum(rows.row(i), 16) * (2 * static_cast<std::uint64_t>(words.global_row(i)) + 1) +
             px::detail::checksum(slots.row(i), 16) * 3 * (2 * static_cast<std::uint64_t>(words.global_row(i)) + 1);
    if (session.rank() == 0)
      sum += px::detail::checksum(memory.data(), 4400) + static_cast<std::uint64_t>(1000 * epoch) +
             static_cast<std::uint64_t>(session.steps());
    return sum;
  }

  px::Session<px::ThreadCommunicator> session;
  std::vector<float> memory = std::vector<float>(1100, 1.0f);
  px::Variable<px::Sparse, px::Adagrad, px::Hash> words{session, "words", {200, 4, px::uniform(0, 1, 3)}};
  px::Variable<px::Dense, px::Momentum> bias{session, "bias", px::bind(memory)};
  int epoch = 0;
};

template <class F>
void on_ranks(int count, F&& body) {
  px::run_threads(count, body, {.deadline = std::chrono::seconds{30}});
}
std::uint64_t state_after(std::int64_t steps) {
  std::array<std::uint64_t, ranks> sums{};
  on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    Trainer trainer{world};
    trainer.train_to(steps);
    sums[static_cast<std::size_t>(world.rank())] = trainer.digest();
    trainer.session.finish();
  });
  return sums[0] + sums[1] + sums[2] + sums[3];
}
struct States {
  std::uint64_t first, second;  // after 2 steps, and 4
};

std::string left_behind(std::string const& folder) {
  for (auto const& entry : std::filesystem::recursive_directory_iterator{folder})
    if (entry.path().string().ends_with(".part")) return entry.path().string() + " is left";
  return {};
}

// Both saves. Says what is wrong; "refused" where a save told all ranks the same of a file.
std::string save_twice(std::string const& folder, int& refused) {
  std::array<std::string, ranks> said;
  on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    Trainer trainer{world};
    for (std::int64_t const steps : {2, 4}) {
      trainer.train_to(steps);
      std::uint64_t const before = trainer.digest();
      try {
        trainer.save(folder);
        said[static_cast<std::size_t>(world.rank())] += "saved; ";
        std::lock_guard const lock{mutex};
        if (plan.way == Way::none && !unsynced.empty()) not_durable = *unsynced.begin();
      } catch (px::Error const& error) {
        said[static_cast<std::size_t>(world.rank())] +=
            error.code() == px::Errc::file ? error.what() : "not of a file: " + std::string{error.what()};
      }
      if (trainer.digest() != before) said[static_cast<std::size_t>(world.rank())] += "the state has changed";
    }
    trainer.train_to(5);
    trainer.session.finish();
  });
  for (std::string const& text : said)
    if (text != said[0]) return "ranks were told otherwise: " + said[0] + " | " + text;
  refused = said[0] != "saved; saved; ";
  bool const known = said[0].find("not of a file") == std::string::npos && said[0].find("changed") == std::string::npos;
  return known ? "" : said[0];
}

// Restores by `count` ranks and saves again. Returns the steps of what was there, 0 where nothing was.
std::int64_t look(std::string const& folder, int count, States const& states, std::string& wrong) {
  std::int64_t steps = 0, generation = 0;
  std::vector<std::string> said(static_cast<std::size_t>(count));
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(count)), kept(sums), again(sums);
  on_ranks(count, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    Trainer trainer{world};
    try {
      auto const restored = trainer.restore(folder);
      if (rank == 0) steps = restored.step;
      sums[rank] = trainer.digest();
    } catch (px::Error const& error) {
      said[rank] = error.what();
      trainer.train_to(2);
    }
    kept[rank] = trainer.digest();
    try {
      auto const saved = trainer.save(folder);
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
  if (px::detail::generations_in(folder) != std::vector<std::int64_t>{generation}) wrong += "other generations stay; ";
  on_ranks(count, [&](px::ThreadCommunicator& world) {
    Trainer trainer{world};
    trainer.restore(folder);
    again[static_cast<std::size_t>(world.rank())] = trainer.digest();
    trainer.session.finish();
  });
  std::uint64_t difference = 0;
  for (std::size_t rank = 0; rank < kept.size(); ++rank) difference += again[rank] - kept[rank];
  if (difference != 0) wrong += "the next save is of something else; ";
  return steps;
}

// ---- the points --------------------------------------------------------------------------------------------------------------

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

struct Row {
  long points = 0, none = 0, first = 0, second = 0, refused = 0;
};

}  // namespace

int main() {
  auto const begin = std::chrono::steady_clock::now();
  parallax_test::Scratch const scratch;
  int failures = 0, number = 0;
  auto const complain = [&](std::string const& what) {
    std::printf("FAILED: %s\n", what.c_str());
    ++failures;
  };
  bool killed = false;
  // Before any thread of this process: each of these is a process of its own.
  States states{};
  std::string const measured = in_child(
      [&] {
        States const known{state_after(2), state_after(4)};
        static_cast<void>(!write(plan.told, &known, sizeof(known)));
      },
      killed);
  if (measured.size() != sizeof(states)) return complain("no states"), 1;
  std::memcpy(&states, measured.data(), sizeof(states));
  if (states.first == states.second) return complain("the states are alike"), 1;

  // One point; the name of the call that it was, empty where there was none of this number.
  std::map<std::tuple<std::string, std::string>, Row> table;
  auto const point = [&](std::string const& way_name, Way way, long at, int code) {
    std::string const folder = scratch.path("run" + std::to_string(++number));
    std::string said = in_child(
        [&] {
          plan.below = folder, plan.way = way, plan.at = at, plan.code = code;
          armed = true;
          int refused = 0;
          std::string wrong = save_twice(folder, refused);
          armed = false;
          tell("|");
          if (way == Way::none) tell(std::to_string(calls).c_str());
          if (!not_durable.empty()) wrong += "not yet on the disk: " + not_durable;
          if (refused) tell("r");
          if (!wrong.empty()) tell(("WRONG: " + wrong).c_str());
        },
        killed);
    std::string const call = said.substr(0, said.find('|'));
    std::string const where = way_name + " at call " + std::to_string(at) + ", " + call;
    if (call.empty() && way != Way::none) return call;
    if (said.find("WRONG") != std::string::npos || (said.find("child ended") != std::string::npos))
      complain(where + ": " + said);
    bool const should_die = way == Way::kill_before || way == Way::kill_after;
    if (killed != should_die) complain(where + ": it did not end as it should");
    bool const refused = said.ends_with("|r");
    bool died = false;
    std::string const found = in_child(
        [&] {
          std::string wrong;
          std::int64_t const steps = look(folder, number % 3 == 0 ? 3 : ranks, states, wrong);
          tell(std::to_string(steps).c_str());
          if (!wrong.empty()) tell((" " + wrong).c_str());
        },
        died);
    if (found != "0" && found != "2" && found != "4") complain(where + ", afterwards: " + found + (died ? ", killed" : ""));
    // What was never refused is there.
    if (!should_die && !refused && found != "4") complain(where + ": saved, but " + found + " is there");
    if (way == Way::cut && refused) complain(where + ": the rest was not written");
    if (code == EINTR && refused && (call == "pwrite" || call == "fsync" || call == "close"))
      complain(where + ": it was not tried again");
    Row& row = table[{way_name, call}];
    ++row.points, row.refused += refused;
    ++(found == "4" ? row.second : found == "2" ? row.first : row.none);
    std::filesystem::remove_all(folder);
    return way == Way::none ? said.substr(1) : call;
  };

  long const all = std::atol(point("nothing", Way::none, -1, 0).c_str());
  std::printf("%ld calls\n", all);
  if (all < 150) complain("few calls");
  long kills = 0, errors = 0;
  int const every = parallax_test::sized(17, 1, 1);
  for (long at = 0; at < all; at += every)
    for (Way const way : {Way::kill_before, Way::kill_after})
      kills += !point(way == Way::kill_before ? "killed before" : "killed after", way, at, 0).empty();
  struct Fault {
    char const* name;
    Way way;
    int code;
  };
  constexpr Fault faults[] = {{"ENOSPC", Way::fail, ENOSPC},
                              {"EINTR", Way::fail, EINTR},
                              {"cut", Way::cut, 0},
                              {"EIO", Way::fail, EIO},
                              {"EDQUOT", Way::fail, EDQUOT}};
  for (long at = 0; at < all; at += every)
    for (long i = 0; i < 5; ++i)
      if (parallax_test::full_size() || at % 5 == i || (at + 2) % 5 == i)
        errors += !point(faults[i].name, faults[i].way, at, faults[i].code).empty();
  std::printf("%-14s %-10s %7s %8s %8s %8s %8s\n", "", "call", "points", "none", "first", "second", "refused");
  for (auto const& [key, row] : table)
    std::printf("%-14s %-10s %7ld %8ld %8ld %8ld %8ld\n", std::get<0>(key).c_str(), std::get<1>(key).c_str(), row.points,
                row.none, row.first, row.second, row.refused);
  if (every == 1 && (kills < 300 || errors < 200)) complain("few points");
  std::printf("%ld kills, %ld errors, %d failures, %.1f s\n", kills, errors, failures,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return failures > 0 ? 1 : 0;
}
