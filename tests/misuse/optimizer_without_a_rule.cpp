// expect: parallax: the optimizer's rule does not fit: the optimizer lacks element_slots
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Idle {
  using axis = px::optimizer_axis;
  double learning_rate = 0.1;
};
using Words = px::Variable<px::Sparse, Idle>;
Words* words;
