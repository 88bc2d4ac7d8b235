// expect: parallax: a Session is made over a communicator (see comm/communicator.hpp), and what this one's ialltoallv(channel, transfer) returns lacks int waiting_for() const
#include <parallax/parallax.hpp>

namespace px = parallax;

struct World {
  struct Request {
    bool test() { return true; }
  };
  int rank() const { return 0; }
  int size() const { return 1; }
  Request ialltoallv(int, px::Transfer const&) { return {}; }
  void abort(px::Error const&) {}
  std::chrono::nanoseconds deadline() const { return std::chrono::seconds{60}; }
};
World world;
px::Session session{world};
