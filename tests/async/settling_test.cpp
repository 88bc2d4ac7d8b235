// A rank that takes long to bring rows up to date says so. The deadline of ranks that wait for it does not pass, between
// threads, over sockets, and of a server that answers workers.
#include "settling.hpp"
#include "../catch.hpp"
#include "../comm/sockets.hpp"
#include "parallax/comm/thread.hpp"

namespace px = parallax;
using settling::waits;

TEST_CASE("a rank that settles rows for longer than the deadline is waited for between threads", "[session][settle]") {
  for (bool const asked : {false, true}) {
    bool right[2] = {};
    px::run_threads(2, [&](px::ThreadCommunicator& world) { right[world.rank()] = waits(world, asked); },
                    {.deadline = settling::deadline});
    CHECK((right[0] && right[1]));
  }
}

TEST_CASE("a rank that settles rows for longer than the deadline is waited for over sockets", "[session][settle][sockets]") {
  bool right[2] = {};
  run_sockets(2, [&](px::SocketCommunicator& world) { right[world.rank()] = waits(world, false); },
              {.deadline = settling::deadline});
  CHECK((right[0] && right[1]));
}

TEST_CASE("a server that settles rows for longer than the deadline is waited for by workers", "[async][settle]") {
  float seen[2] = {};
  px::run_threads(2, [&](px::ThreadCommunicator& world) { seen[world.rank()] = settling::served(world); },
                  {.deadline = settling::deadline});
  CHECK(seen[1] < 0);
}
