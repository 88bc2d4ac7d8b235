// `Session::visit`: everything of a session and its variables that outlives a step, shown to an archive. The session calls it.
#pragma once

#include <cstdint>
#include <string>

#include "parallax/core/archive.hpp"
#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// Local. Throws Error (misuse) if updates or rows are under way, a variable is of another session, or one is missing.
template <Communicator C, class... Variables>
void check_visit(SessionCore<C> const& core, Variables const&... variables) {
  auto const refuse = [&](std::string const& name, char const* why) {
    throw Error{Errc::misuse, core.topology.rank(), "visit", name, why};
  };
  if (core.flights.any_started())
    refuse(core.flights.started().front()->names(), "updates were started and no step completed them");
  if (core.ahead.falling()) refuse("", "rows that were named ahead are on their way");
  auto const check = [&](auto const& variable) { core.check_owned(variable.state(), "visit"); };
  (each_of(variables, check), ...);
  for (auto const& known : core.registry.variables()) {
    bool found = known->gone;
    auto const compare = [&](auto const& variable) { found = found || variable.state().registration().get() == known.get(); };
    (each_of(variables, compare), ...);
    if (!found) refuse(known->name, "it is not among the variables that are visited");
  }
}

// Local. Shows the session's own memory from step to step: number of steps, measured costs, and decisions of Auto. Options are
// the trainer's, and not shown. Throws the archive's errors.
template <Communicator C, Archive A>
void visit_session(SessionCore<C>& core, A& archive) {
  Items<A> items{archive, ""};
  items.number("session.steps", core.steps);
  items.fields("session.costs", core.own_costs, Share::world);
  items.fields("session.device_costs", core.own_device_costs, Share::world);
  std::uint64_t made = core.decisions.size();
  items.number("session.decisions", made);
  if (core.decisions.size() > made) core.decisions.resize(static_cast<std::size_t>(made));
  for (std::size_t i = 0; i < made; ++i) {  // one by one: a damaged number ends at the first that is missing
    if (i == core.decisions.size()) core.decisions.emplace_back();
    std::string const name = "session.decision." + std::to_string(i);
    items.number(name + ".step", core.decisions[i].step);
    items.text(name + ".variable", core.decisions[i].variable);
    items.text(name + ".text", core.decisions[i].text);
  }
}

// Local. Shows the session first, then the variables in the order of the arguments, and of ranges. Throws the errors of
// `check_visit`, and the archive's: if one that reads throws half way, the session has the state of neither run.
template <Communicator C, Archive A, class... Variables>
void visit(SessionCore<C>& core, A& archive, Variables&... variables) {
  check_visit(core, variables...);
  follow_caller(core.topology.world());  // waits for copies from the device
  visit_session(core, archive);
  auto const show = [&](auto& variable) {
    variable.visit(archive);
    if constexpr (A::reads && requires { variable.state().step_began; })
      variable.state().step_began = core.waiting.seconds();  // a search goes on by this session's clock
  };
  (each_of(variables, show), ...);
}

}  // namespace parallax::detail
