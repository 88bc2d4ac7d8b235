// expect: parallax: a Session is made over a communicator
#include <parallax/parallax.hpp>

namespace px = parallax;

struct World {
  int rank() const { return 0; }
  int size() const { return 1; }
};
World world;
px::Session session{world};
