// expect: parallax: the first argument of Variable is its kind: Dense or Sparse
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Adam, px::Sparse>;
Words* words;
