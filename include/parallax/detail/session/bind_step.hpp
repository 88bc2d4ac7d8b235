// `Session::bind_step`: the agreement under a BoundStep. The session calls it, once its assertions have passed.
#pragma once

#include <optional>
#include <string>

#include "parallax/detail/session/core.hpp"
#include "parallax/detail/step/bound_step.hpp"

namespace parallax::inline v0_2::detail {

// Collective. Lets all ranks agree on variables, settings of optimizers and the fit of gradients; then each makes and returns
// its BoundStep, collective, too. `world`: the communicator without the engine's edge. Throws the errors of `check_binding`.
template <Communicator Edge, Communicator C, class... Updates>
auto bind_step(SessionCore<Edge>& core, C& world, Updates const&... updates) {
  return core.waiting.guarded("bind_step", [&] {
    auto const names = [&] {
      std::string list;
      ((list += (list.empty() ? "" : ", ") + updates.state->name()), ...);
      return list;
    };
    Fingerprint hash = core.begin(Operation::bind_step);
    (updates.state->add_update(hash), ...);
    std::optional<Error> const error = core.attempt("bind_step", [&] {
      (check_binding(core.topology, updates), ...);
      (core.check_owned(*updates.state, "bind_step"), ...);
    });
    core.rounds.agreement.begin(hash.value(), !error, core.joined, 0);
    core.rounds.agree("bind_step", error, names, [&] { return (updates.state->registration()->update_lines("") + ...); });
    return BoundStep<C, Updates...>{world, updates...};
  });
}

}  // namespace parallax::detail
