// Two saves, one after the other, that are killed before and after each call that touches a file, or of which a call fails: whoever
// comes afterwards finds the one generation or the other, whole, and saves again. And a restore of which each call fails. The calls are
// this program's own definitions; no disk is waited for, but what a disk would have been told before a generation gets its name is
// checked. --background: saves behind the steps; --apart: on two hosts that share no folder.
#include <map>
#include <tuple>

#include "../support/size.hpp"
#include "kills.hpp"

using namespace parallax_test;

namespace {

// Of the calls that a signal can interrupt.
bool is_tried_again(std::string_view call) {
  for (char const* const one : {"open", "opendir", "readdir", "pread", "pwrite", "fsync", "close"})
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
  States const states = known_states();

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
    std::string const found = looked(folder, number % 3 == 0 ? 3 : ranks, states);
    if (found != "0" && found != "2" && found != "4") complain(where + ", afterwards: " + found);
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
  int const every = sized(17, background || apart ? 2 : 1, 1);
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
    // A stat tells whether a name is a folder's. Where it fails, the name is taken for one, and opening it is what tells.
    bool const tells = call != "close" && call != "stat";
    if (!refused && fault.way == Way::fail && fault.code != EINTR && tells) complain(where + ": nobody was told");
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
