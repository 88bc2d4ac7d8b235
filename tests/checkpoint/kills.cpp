// Two saves, one after the other, that are killed before and after each call that touches a file, or of which a call fails: whoever
// comes afterwards finds the one generation or the other, whole, and saves again. And a restore of which each call fails. The calls are
// this program's own definitions; no disk is waited for, but what a disk would have been told before a generation gets its name is
// checked.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "calls.hpp"
#include "hosts.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using namespace parallax_test;

namespace {

// ---- the calls ---------------------------------------------------------------------------------------------------------------

enum class Way { none, kill_before, kill_after, fail, cut };
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
Plan plan;
std::atomic<long> calls[3];  // by kind
std::mutex mutex;
std::set<std::string> unsynced;  // files and folders that a disk has not been told of
std::string not_durable;

void tell(char const* call) {
  if (plan.told >= 0) static_cast<void>(!syscall(SYS_write, plan.told, call, std::strlen(call)));
}
[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// Does the call in the way that is planned.
long passed(FileCall const& call, px::FunctionRef<long()> done, px::FunctionRef<long()> cut) {
  long const number = calls[static_cast<int>(call.reads() ? Kind::reading : Kind::writing)]++, any = calls[2]++;
  bool const counted = plan.kind == Kind::any || call.reads() == (plan.kind == Kind::reading);
  if (!counted || (plan.kind == Kind::any ? any : number) != plan.at) return done();
  tell(call.name);
  if (plan.way == Way::kill_before) die();
  if (plan.way == Way::fail) {
    errno = plan.code;
    return -1;
  }
  long const result = plan.way == Way::cut ? cut() : done();
  if (plan.way == Way::kill_after) die();
  return result;
}
void note(std::string const& path, bool dirty) {
  if (!is_below(path)) return;
  std::lock_guard const lock{mutex};
  if (dirty) unsynced.insert(path);
  else unsynced.erase(path);
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

long parallax_test::on_call(FileCall const& call, px::FunctionRef<long()> done, px::FunctionRef<long()> cut) {
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

namespace {

// ---- the training ------------------------------------------------------------------------------------------------------------

constexpr int ranks = 4;
bool background = false;  // whether saves are behind the steps
bool apart = false;       // whether the ranks are on two hosts, which share no folder

// Below `folder`: the one that all ranks see, or those of the hosts.
std::vector<std::string> places(std::string const& folder) {
  return apart ? std::vector<std::string>{folder + "/host0/run", folder + "/host1/run"} : std::vector{folder};
}
void make_hosts(std::string const& folder) {
  if (apart) std::filesystem::create_directories(folder + "/host0"), std::filesystem::create_directories(folder + "/host1");
}
// A rank's place; `folder` is what it calls it.
struct Place {
  Place(std::string const& below, int rank) : folder{below} {
    if (apart) host.emplace(below + "/host" + std::to_string(rank / 2)), folder = "run";
  }
  std::string folder;
  std::optional<OnHost> host;
};

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
  // Behind the steps, and its end.
  void save_behind(std::string const& folder) {
    session.save_async(folder, {.keep = 1}, words, bias, px::shared_value("epoch", epoch));
    session.finish();
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
    Place const place{folder, world.rank()};
    Trainer trainer{world};
    for (std::int64_t const steps : {2, 4}) {
      trainer.train_to(steps);
      std::uint64_t const before = trainer.digest();
      try {
        background ? trainer.save_behind(place.folder) : static_cast<void>(trainer.save(place.folder));
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
    Place const place{folder, world.rank()};
    Trainer trainer{world};
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
    Trainer trainer{world};
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
std::string restore_once(int count, States const& states) {
  std::vector<std::string> said(static_cast<std::size_t>(count));
  std::vector<std::uint64_t> sums(said.size());
  on_ranks(count, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    Place const place{calls_below, world.rank()};
    Trainer trainer{world};
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

// Of the calls that a signal can interrupt.
bool is_tried_again(std::string_view call) {
  for (char const* const one : {"open", "opendir", "pread", "pwrite", "ftruncate", "fsync", "close"})
    if (call == one) return true;
  return false;
}

struct Row {
  long points = 0, none = 0, first = 0, second = 0, refused = 0;
};

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    background = background || std::string_view{argv[i]} == "--background";
    apart = apart || std::string_view{argv[i]} == "--apart";
  }
  auto const begin = std::chrono::steady_clock::now();
  Scratch const scratch;
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
  auto const point = [&](std::string const& way_name, Way way, long at, int code, Kind kind = Kind::writing) {
    std::string const folder = scratch.path("run" + std::to_string(++number));
    make_hosts(folder);
    std::string said = in_child(
        [&] {
          calls_below = folder, plan.way = way, plan.kind = kind, plan.at = at, plan.code = code;
          calls_armed = true;
          int refused = 0;
          std::string wrong = save_twice(folder, refused);
          calls_armed = false;
          tell("|");
          if (way == Way::none) tell((std::to_string(calls[0]) + " " + std::to_string(calls[1])).c_str());
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
    if (code == EINTR && refused && is_tried_again(call)) complain(where + ": it was not tried again");
    Row& row = table[{way_name, call}];
    ++row.points, row.refused += refused;
    ++(found == "4" ? row.second : found == "2" ? row.first : row.none);
    std::filesystem::remove_all(folder);
    return way == Way::none ? said.substr(1) : call;
  };

  char* rest = nullptr;
  std::string const counted = point("nothing", Way::none, -1, 0);
  long const all = std::strtol(counted.c_str(), &rest, 10), readings = std::strtol(rest, nullptr, 10);
  std::printf("%ld calls, and %ld that read\n", all, readings);
  if (all < 150 || readings < 30) complain("few calls");
  long kills = 0, errors = 0;
  int const every = sized(17, 1, 1);
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
      if (full_size() || at % 5 == i || (at + 2) % 5 == i)
        errors += !point(faults[i].name, faults[i].way, at, faults[i].code).empty();

  // What reads a file, in a save; and each call of a restore, of which an error changes no file.
  constexpr Fault of_reading[] = {
      {"EIO", Way::fail, EIO}, {"EINTR", Way::fail, EINTR}, {"EMFILE", Way::fail, EMFILE}, {"cut", Way::cut, 0}};
  for (long at = 0; at < readings; at += every)
    for (long i = 0; i < 4; ++i)
      if (full_size() || at % 4 == i || (at + 2) % 4 == i)
        errors += !point(of_reading[i].name, of_reading[i].way, at, of_reading[i].code, Kind::reading).empty();
  std::string const saved = scratch.path("saved");
  make_hosts(saved);
  static_cast<void>(in_child(
      [&] {
        int refused = 0;
        save_twice(saved, refused);
      },
      killed));
  std::string const manifest = read_all(places(saved)[0] + "/generation-000002/manifest.safetensors");
  auto const restore_point = [&](Fault const& fault, long at, int count) {
    std::string const said = in_child(
        [&] {
          calls_below = saved, plan.way = fault.way, plan.kind = Kind::any, plan.at = at, plan.code = fault.code;
          calls_armed = true;
          std::string const wrong = restore_once(count, states);
          tell("|");
          if (plan.at < 0) tell(std::to_string(calls[2]).c_str());
          tell(wrong.c_str());
        },
        killed);
    std::string const call = said.substr(0, said.find('|')), result = said.substr(said.find('|') + 1);
    if (at < 0) return result;
    if (call.empty()) return call;  // there was none of this number
    std::string const where =
        "restored by " + std::to_string(count) + ", " + fault.name + " at call " + std::to_string(at) + ", " + call;
    bool const refused = result.starts_with("refused");
    if (killed || (!refused && result != "restored")) complain(where + ": " + said);
    if (refused && (fault.way == Way::cut || (fault.code == EINTR && is_tried_again(call))))
      complain(where + ": it was not tried again: " + said);
    if (!refused && fault.way == Way::fail && fault.code != EINTR && call != "close") complain(where + ": nobody was told");
    Row& row = table[{std::string{fault.name} + ", restore", call}];
    ++row.points, row.refused += refused, row.second += !refused;
    return call;
  };
  for (int const count : {apart ? 3 : 2, ranks}) {
    std::string const of_restore = restore_point({"nothing", Way::none, 0}, -1, count);
    long const last = std::atol(of_restore.c_str());
    if (last < 40 || !of_restore.ends_with("restored")) complain("few calls of a restore: " + of_restore);
    for (long at = 0; at < last; at += every)
      for (long i = 0; i < 4; ++i)
        if (full_size() || at % 4 == i || (at + 2) % 4 == i) errors += !restore_point(of_reading[i], at, count).empty();
  }
  if (read_all(places(saved)[0] + "/generation-000002/manifest.safetensors") != manifest)
    complain("a restore has changed the files");
  std::printf("%-14s %-10s %7s %8s %8s %8s %8s\n", "", "call", "points", "none", "first", "second", "refused");
  for (auto const& [key, row] : table)
    std::printf("%-14s %-10s %7ld %8ld %8ld %8ld %8ld\n", std::get<0>(key).c_str(), std::get<1>(key).c_str(), row.points,
                row.none, row.first, row.second, row.refused);
  if (every == 1 && (kills < 300 || errors < 200)) complain("few points");
  std::printf("%ld kills, %ld errors, %d failures, %.1f s\n", kills, errors, failures,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return failures > 0 ? 1 : 0;
}
