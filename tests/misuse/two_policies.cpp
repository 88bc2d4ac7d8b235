// expect: parallax: two options of one Variable lie on the same axis
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::AllReduce, px::presets::hybrid>;
Words* words;
