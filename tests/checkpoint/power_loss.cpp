// Saves after which the power is gone: every call that touches a file is recorded, and of each beginning of the record disks are made
// as they may be found afterwards. What a file was not asked to bring to the disk is there in part, each name that a folder was not
// asked to keep is there or not, in any order. From each such disk one generation comes back whole: none that is older than the last
// save that had returned. Every generation that has its name is whole as well, and the next save goes on.
//   checkpoint.power_loss_test [SEED]
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "calls.hpp"
#include "trainer.hpp"

namespace px = parallax;
using namespace parallax_test;

namespace {

// ---- the record --------------------------------------------------------------------------------------------------------------

using Inode = int;  // a file or folder, whatever it is called; -1: none
constexpr Inode root = 0;

// A name in a folder, and what it leads to from here on.
struct Name {
  Inode folder;
  std::string name;
  Inode leads_to;
};
// What a call did.
struct Event {
  enum class Kind { names, bytes, synced, returned } kind;
  Inode inode = -1;              // of bytes and synced
  std::vector<Name> names = {};  // of a rename both, which are one
  std::size_t at = 0;            // of bytes; the steps of the save that has returned
  std::string bytes = {};
  std::string text = {};  // the call, for messages
};

// All calls below a folder, in the order in which they were done: one after the other.
struct Record {
  std::vector<Event> events;
  std::vector<std::map<std::string, Inode>> folders;  // by inode: what is in it now
  std::mutex mutex;

  void begin() {
    events.clear();
    folders.assign(1, {});
    open.clear();
  }
  // Where a path leads now; -1: nowhere.
  Inode find(std::string const& path) const {
    Inode at = root;
    for (std::size_t from = calls_below.size() + 1; at >= 0 && from < path.size();) {
      std::size_t const slash = std::min(path.find('/', from), path.size());
      auto const& names = folders[static_cast<std::size_t>(at)];
      auto const found = names.find(path.substr(from, slash - from));
      at = found == names.end() ? -1 : found->second;
      from = slash + 1;
    }
    return at;
  }
  Inode made() {
    folders.emplace_back();
    return static_cast<Inode>(folders.size()) - 1;
  }
  Name name(std::string const& path, Inode leads_to) {
    Name const changed{find(folder_of(path)), path.substr(path.rfind('/') + 1), leads_to};
    auto& names = folders[static_cast<std::size_t>(changed.folder)];
    if (leads_to < 0) names.erase(changed.name);
    else names[changed.name] = leads_to;
    return changed;
  }

  std::map<std::string, Inode>
      open;  // by path as it was opened: what a file is called later does not matter to who has it open
};
Record record;
long failing_call = -1, calls_seen = 0;

}  // namespace

long parallax_test::on_call(FileCall const& call, px::FunctionRef<long()> done, px::FunctionRef<long()>) {
  std::lock_guard const lock{record.mutex};  // so that the record has the order of the calls
  std::string_view const name = call.name;
  if (!call.reads() && calls_seen++ == failing_call) return errno = EIO, -1;
  bool const is_new = name == "open" && call.flags & O_CREAT && record.find(call.path) < 0;
  long const result = done();
  if (result < 0) return result;
  using Kind = Event::Kind;
  std::string text = std::string{name} + " " + call.path.substr(std::min(call.path.size(), calls_below.size()));
  auto const add = [&](Event event) {
    event.text = std::move(text);
    record.events.push_back(std::move(event));
  };
  auto const opened = [&] { return record.open.at(call.path); };
  if (name == "open") {
    if (is_new) add({.kind = Kind::names, .names = {record.name(call.path, record.made())}});
    record.open[call.path] = record.find(call.path);
  } else if (name == "mkdir") {
    add({.kind = Kind::names, .names = {record.name(call.path, record.made())}});
  } else if (name == "unlink" || name == "rmdir") {
    add({.kind = Kind::names, .names = {record.name(call.path, -1)}});
  } else if (name == "rename") {
    Inode const moved = record.find(call.path);
    Name const gone = record.name(call.path, -1), here = record.name(call.to, moved);
    add({.kind = Kind::names, .names = {gone, here}});
  } else if (name == "pwrite") {
    add({.kind = Kind::bytes,
         .inode = opened(),
         .at = static_cast<std::size_t>(call.at),
         .bytes = {static_cast<char const*>(call.bytes), static_cast<std::size_t>(result)}});
  } else if (name == "fsync") {
    add({.kind = Kind::synced, .inode = opened()});
  }
  return result;
}

namespace {

// ---- the disks ---------------------------------------------------------------------------------------------------------------

// What becomes of that which nothing has brought to the disk.
enum class Way { all, nothing, names_alone, bytes_alone, but_one_name, one_name_alone, random };

// Files by path, and folders, whose paths end in a slash.
using Disk = std::map<std::string, std::string>;

class Crash {
 public:
  // After the first `count` events.
  explicit Crash(std::size_t count) : count_{count} {
    for (std::size_t i = count; i-- > 0;) {
      Event const& event = record.events[i];
      if (event.kind == Event::Kind::synced) synced_.insert(event.inode);
      if (event.kind == Event::Kind::names && !all_synced(event)) loose_.push_back(i);
    }
  }
  // How many changes of names nothing has made lasting.
  std::size_t loose_names() const { return loose_.size(); }

  // `which`: of the loose names, the one that is meant.
  Disk disk(Way way, std::size_t which, std::mt19937_64& random) const {
    std::vector<bool> kept(count_);
    auto const coin = [&] { return random() % 2 == 0; };
    std::size_t number = 0;
    for (std::size_t const i : loose_) {
      bool const meant = number++ == which;
      kept[i] = way == Way::all || way == Way::names_alone || (way == Way::but_one_name && !meant) ||
                (way == Way::one_name_alone && meant) || (way == Way::random && coin());
    }
    std::vector<std::map<std::string, Inode>> folders(record.folders.size());
    std::set<std::size_t> const loose(loose_.begin(), loose_.end());
    for (std::size_t i = 0; i < count_; ++i)
      if (loose.count(i) == 0 || kept[i])
        for (Name const& name : record.events[i].names) {
          auto& names = folders[static_cast<std::size_t>(name.folder)];
          if (name.leads_to < 0) names.erase(name.name);
          else names[name.name] = name.leads_to;
        }
    Disk disk;
    std::map<Inode, std::string> contents;
    add(disk, folders, root, "", [&](Inode file) {
      auto const found = contents.find(file);
      return found != contents.end() ? found->second : contents[file] = bytes_of(file, way, random);
    });
    return disk;
  }

 private:
  static constexpr std::size_t block = 512;

  bool all_synced(Event const& event) const {
    return std::all_of(event.names.begin(), event.names.end(),
                       [&](Name const& name) { return synced_.count(name.folder) > 0; });
  }
  static bool is_folder(Inode inode) {
    for (Event const& event : record.events)
      for (Name const& name : event.names)
        if (name.folder == inode || (name.leads_to == inode && event.text.starts_with("mkdir"))) return true;
    return inode == root;
  }
  template <class Bytes>
  static void add(Disk& disk, std::vector<std::map<std::string, Inode>> const& folders, Inode folder, std::string const& path,
                  Bytes const& bytes) {
    for (auto const& [name, inode] : folders[static_cast<std::size_t>(folder)]) {
      if (!is_folder(inode)) {
        disk[path + name] = bytes(inode);
        continue;
      }
      disk[path + name + "/"];
      add(disk, folders, inode, path + name + "/", bytes);
    }
  }

  // A file, as far as it was brought to the disk, and then each block as it was then, as it is now, as it was in between, or zero; and
  // as long as it was at any time since.
  std::string bytes_of(Inode file, Way way, std::mt19937_64& random) const {
    std::vector<std::string> states{{}};  // the lasting one, and each since then
    for (std::size_t i = 0; i < count_; ++i) {
      Event const& event = record.events[i];
      if (event.inode != file) continue;
      std::string now = states.back();
      if (event.kind == Event::Kind::synced) {
        states = {now};
        continue;
      }
      if (event.kind == Event::Kind::bytes) {
        if (now.size() < event.at + event.bytes.size()) now.resize(event.at + event.bytes.size());
        now.replace(event.at, event.bytes.size(), event.bytes);
      }
      states.push_back(std::move(now));
    }
    if (states.size() == 1 || way == Way::nothing || way == Way::names_alone || way == Way::one_name_alone)
      return states.front();
    if (way != Way::random) return states.back();
    std::string found = states[random() % states.size()];
    if (random() % 4 == 0 && !found.empty()) found.resize(random() % (found.size() + 1));
    for (std::size_t at = 0; at < found.size(); at += block) {
      std::size_t const size = std::min(block, found.size() - at);
      std::size_t const which = random() % (states.size() + 1);
      std::string part(size, '\0');
      if (which < states.size() && states[which].size() > at) states[which].copy(part.data(), size, at);
      if (found.compare(at, size, states.front().substr(std::min(at, states.front().size()), size)) == 0 &&
          states.back().compare(std::min(at, states.back().size()), size, found, at, size) == 0)
        continue;  // nobody has written here since
      found.replace(at, size, part);
    }
    return found;
  }

  std::size_t count_;
  std::set<Inode> synced_;
  std::vector<std::size_t> loose_;  // from the last on
};

// ---- the training ------------------------------------------------------------------------------------------------------------

template <class F>
void on_ranks(int count, F&& body) {
  px::run_threads(count, body, {.deadline = std::chrono::seconds{30}});
}
// By steps: the digest of the state that was saved.
std::map<std::int64_t, std::uint64_t> digests;

// Saves after 2, 4, … steps, with a record of the calls. `failing`: the call that fails, -1: none. How many saves were refused.
int saves(std::string const& below, std::string const& folder, int ranks, int count, int keep, long failing) {
  record.begin();
  calls_below = below, failing_call = failing, calls_seen = 0;
  calls_armed = true;
  int refused = 0;
  on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    Trainer<> trainer{world};
    for (int i = 1; i <= count; ++i) {
      trainer.train_to(2 * i);
      std::uint64_t const mine = trainer.digest();
      {
        std::lock_guard const lock{record.mutex};
        static std::map<std::pair<int, int>, std::uint64_t> sums;
        if (world.rank() == 0) digests[2 * i] = 0;
        sums[{world.rank(), i}] = mine;
        for (int rank = 0; rank < ranks; ++rank) digests[2 * i] = rank == 0 ? sums[{0, i}] : digests[2 * i] + sums[{rank, i}];
      }
      try {
        trainer.save(folder, keep);
        std::lock_guard const lock{record.mutex};
        record.events.push_back({.kind = Event::Kind::returned,
                                 .at = static_cast<std::size_t>(2 * i),
                                 .text = "return of the save after " + std::to_string(2 * i) + " steps"});
      } catch (px::Error const&) {
        if (world.rank() == 0) ++refused;
      }
    }
    trainer.session.finish();
  });
  calls_armed = false;
  return refused;
}

void end(Trainer<>& trainer) {
  try {
    trainer.session.finish();
  } catch (px::Error const&) {  // the session has ended
  }
}

struct Seen {
  std::int64_t steps = 0;  // 0: nothing was there
  std::string wrong;
};

// Restores what is in a folder by `count` ranks; `generation`: that one.
Seen restored(std::string const& folder, int count, std::int64_t generation, bool save_again) {
  Seen seen;
  std::vector<std::string> said(static_cast<std::size_t>(count));
  std::vector<std::uint64_t> sums(said.size());
  on_ranks(count, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    Trainer<> trainer{world};
    try {
      auto const was = trainer.restore(folder, generation);
      if (rank == 0) seen.steps = was.step;
      sums[rank] = trainer.digest();
    } catch (px::Error const& error) {
      said[rank] = error.what();
    }
    if (!save_again) return end(trainer);
    try {
      std::uint64_t const before = trainer.digest();
      auto const saved = trainer.save(folder, 1);
      end(trainer);
      if (rank == 0 && px::detail::generations_in(folder) != std::vector<std::int64_t>{saved.generation})
        said[rank] += "the next save leaves others";
      Trainer<> next{world};
      next.restore(folder);
      if (next.digest() != before) said[rank] += "the next save is of something else";
      end(next);
    } catch (px::Error const& error) {
      said[rank] += std::string{"the next save: "} + error.what();
    }
  });
  std::uint64_t sum = 0;
  for (std::uint64_t const of_rank : sums) sum += of_rank;
  for (std::string const& text : said)
    if (text != said[0]) seen.wrong = "ranks were told otherwise; ";
  bool const none = said[0].find("it has no complete generation of a checkpoint") != std::string::npos &&
                    said[0].find("the next save") == std::string::npos;
  if (seen.steps == 0 && !none) seen.wrong += said[0];
  if (seen.steps != 0 && !said[0].empty()) seen.wrong += said[0];
  if (seen.steps != 0 && (digests.count(seen.steps) == 0 || digests.at(seen.steps) != sum)) seen.wrong += "it is a mixture; ";
  return seen;
}

// The steps of the last save that has returned by then, 0 where none has.
std::int64_t steps_returned(std::size_t events) {
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < events; ++i)
    if (record.events[i].kind == Event::Kind::returned) steps = static_cast<std::int64_t>(record.events[i].at);
  return steps;
}

void materialise(Disk const& disk, std::string const& folder) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (auto const& [path, bytes] : disk) {
    if (path.ends_with('/')) std::filesystem::create_directories(folder + "/" + path);
    else std::ofstream{folder + "/" + path, std::ios::binary} << bytes;
  }
}

}  // namespace

int main(int count, char** arguments) {
  auto const begin = std::chrono::steady_clock::now();
  std::uint64_t const seed = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random{seed};
  Scratch const scratch;
  long disks = 0, crashes = 0, failures = 0, none = 0, old_one = 0, newest = 0, by_number = 0, saved_again = 0;
  std::string const found = scratch.path("found");

  // Looks at a disk after the first `events` of the record.
  auto const look = [&](Disk const& disk, std::size_t events, std::string const& where, std::string const& folder) {
    std::int64_t const returned = steps_returned(events), begun = returned + 2;
    materialise(disk, found);
    std::string const run = found + "/" + folder;
    int const ranks = disks % 5 == 0 ? 2 : 1;
    Seen const seen = restored(run, ranks, 0, false);
    std::string wrong = seen.wrong;
    if (seen.steps < returned)
      wrong += "step " + std::to_string(seen.steps) + " is there, and " + std::to_string(returned) + " was saved";
    // After a save that was refused a later one is begun.
    if (seen.steps > begun && failing_call < 0) wrong += "step " + std::to_string(seen.steps) + " was not saved yet";
    ++(seen.steps == 0 ? none : seen.steps > returned ? newest : old_one);
    for (auto const& [path, bytes] : disk) {
      if (!path.ends_with('/') || !path.starts_with(folder + "/")) continue;
      std::string_view const name = std::string_view{path}.substr(folder.size() + 1);
      std::int64_t const number = name.empty() ? 0 : px::detail::generation_number(name.substr(0, name.size() - 1));
      if (number == 0) continue;
      Seen const one = restored(run, 1, number, false);
      if (!one.wrong.empty() || one.steps == 0) wrong += "generation " + std::to_string(number) + " has its name: " + one.wrong;
      ++by_number;
    }
    if (disks % 8 == 0) {
      wrong += restored(run, ranks, 0, true).wrong;
      ++saved_again;
    }
    ++disks;
    if (wrong.empty()) return;
    if (++failures <= 20) std::printf("FAILED: %s: %s\n", where.c_str(), wrong.c_str());
  };
  std::set<std::uint64_t> known;  // with what had returned: a disk is looked at once
  auto const crash = [&](std::size_t events, std::string const& scene, std::string const& folder, int draws, bool each_name) {
    Crash const after{events};
    ++crashes;
    std::string const last = events > 0 ? record.events[events - 1].text : "nothing";
    auto const one = [&](Way way, char const* text, std::size_t which) {
      Disk disk = after.disk(way, which, random);
      std::string whole;
      for (auto const& [path, bytes] : disk) whole.append(path).append(1, '\0').append(bytes).append(1, '\0');
      if (known.insert(px::detail::checksum(whole.data(), whole.size()) + static_cast<std::uint64_t>(steps_returned(events)))
              .second)
        look(disk, events, scene + ", event " + std::to_string(events) + ", after " + last + ", " + text, folder);
    };
    one(Way::all, "all is there", 0);
    one(Way::nothing, "only what was synced", 0);
    one(Way::names_alone, "names without bytes", 0);
    one(Way::bytes_alone, "bytes without names", 0);
    for (std::size_t i = 0; each_name && i < after.loose_names(); ++i) {
      one(Way::but_one_name, "all but one name", i);
      one(Way::one_name_alone, "one name alone", i);
    }
    for (int i = 0; i < draws; ++i) one(Way::random, "at random", 0);
  };

  // Saves in a row: the power fails after each call.
  struct Scene {
    int ranks, count, keep;
    char const* folder;
  };
  constexpr Scene scenes[] = {{2, 3, 1, "run"}, {2, 4, 2, "above/run"}, {1, 3, 2, "run"}};
  int number = 0;
  for (Scene const& scene : scenes) {
    std::string const name = std::to_string(scene.count) + " saves by " + std::to_string(scene.ranks) + " ranks that keep " +
                             std::to_string(scene.keep);
    std::string const below = scratch.path("disk" + std::to_string(++number));
    std::filesystem::create_directory(below);
    known.clear();
    if (saves(below, below + "/" + scene.folder, scene.ranks, scene.count, scene.keep, -1) != 0) ++failures;
    std::size_t const all = record.events.size();
    std::printf("%s: %zu events\n", name.c_str(), all);
    for (std::size_t events = 0; events <= all; ++events)
      crash(events, name, scene.folder, sized(0, 45, 120), sized(false, true, true));
  }

  // A call fails, and later saves go on: the power fails once they have returned.
  long const calls = calls_seen;
  for (long failing = 0; failing < calls; failing += sized(11, 1, 1)) {
    std::string const below = scratch.path("failing" + std::to_string(failing));
    std::filesystem::create_directory(below);
    known.clear();
    saves(below, below + "/above/run", 1, 3, 2, failing);
    std::string const name = "call " + std::to_string(failing) + " fails";
    for (int i = 0; i < sized(1, 2, 8); ++i)
      crash(i == 0 ? record.events.size() : random() % (record.events.size() + 1), name, "above/run", sized(0, 25, 60), false);
    std::filesystem::remove_all(below);
  }

  std::printf(
      "%ld crashes, %ld different disks; nothing came back from %ld, the last saved from %ld,\n"
      "one whose save had not returned from %ld; %ld generations were restored by number, %ld disks were saved on again;\n"
      "%ld failures, %.1f s\n",
      crashes, disks, none, old_one, newest, by_number, saved_again, failures,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (disks < sized(100, 2000, 6000)) std::printf("FAILED: few disks\n"), ++failures;
  return failures > 0 ? 1 : 0;
}
