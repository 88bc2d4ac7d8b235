// expect: parallax: a memory space has allocate, deallocate and host_readable
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Nowhere {
  using axis = px::space_axis;
};
using Words = px::Variable<px::Sparse, Nowhere>;
Words* words;
