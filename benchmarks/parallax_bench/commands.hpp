// The commands, by name: each is a file of its own, which brings itself in, so that a program can have all of them or one.
#pragma once

#include <functional>
#include <map>
#include <string_view>

#include "ids.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "report.hpp"

namespace bench {

// What a command has to work with. `recorded`: the ids of a file, or null. `prints`: whether this process is the one that is heard.
struct Run {
  Options const& options;
  Environment const& environment;
  Ranks& ranks;
  Report& report;
  Progress& progress;
  Ids const* recorded;
  bool prints;
};
using Body = std::function<void(Run const&)>;

inline std::map<std::string_view, Body>& bodies() {
  static std::map<std::string_view, Body> all;
  return all;
}
// Called before main, by each command that was linked.
inline bool bring(std::string_view name, Body body) { return bodies().emplace(name, std::move(body)).second; }

// Runs it, or refuses what this program does not have.
inline void run(std::string_view name, Run const& with) {
  auto const body = bodies().find(name);
  if (body == bodies().end()) throw Refusal{"this program was built without the command " + std::string{name}};
  body->second(with);
}

// What a command does for the scalar that was asked for. A program of one command may have floats alone.
template <class F>
void for_scalar(Options const& options, F&& f) {
#ifdef BENCH_FLOATS_ALONE
  if (options.doubles) throw Refusal{"this program was built for float alone: -d double cannot be had"};
  f(float{});
#else
  if (options.doubles) f(double{});
  else f(float{});
#endif
}

}  // namespace bench
