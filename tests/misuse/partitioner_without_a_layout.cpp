// expect: parallax: a partitioner has a name, pieces and a layout
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Nobody {
  using axis = px::partitioner_axis;
};
using Words = px::Variable<px::Sparse, Nobody>;
Words* words;
