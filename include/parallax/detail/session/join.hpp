// `Session::join`: for ranks that run out of data before others. The session calls it; the iteration given to it calls the
// session.
#pragma once

#include <cstdint>

#include "parallax/detail/session/core.hpp"

namespace parallax::inline v0_2::detail {

// Collective by the calls of `body`. Calls it again and again; meanwhile `core.joined` marks this rank in its agreements, and
// its updates count as none. Returns once a step has found all ranks marked. If `body` called no operation, throws Error
// (misuse), and so do the peers in their call, for they would hang otherwise.
template <Communicator C, class Body>
void join(SessionCore<C>& core, Body& body) {
  struct Joined {
    bool& flag;
    ~Joined() { flag = false; }
  } const leaving{core.joined};
  core.joined = true;
  do {
    std::uint64_t const before = core.rounds.operations();
    core.all_joined = false;
    body();
    if (core.rounds.operations() == before)
      core.waiting.guarded("join", [&] {
        core.await_rows("join");
        core.refuse(Operation::step, "join", "the body given to join called no operation of the session");
      });
  } while (!core.all_joined);
}

}  // namespace parallax::detail
