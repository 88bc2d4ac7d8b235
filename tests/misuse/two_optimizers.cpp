// expect: parallax: two options of one Variable lie on the same axis
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::Adam, px::Sgd>;
Words* words;
