// expect: parallax: an argument of Variable is no option
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, int>;
Words* words;
