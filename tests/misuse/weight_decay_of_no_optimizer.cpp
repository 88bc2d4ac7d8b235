// expect: parallax: WeightDecay is put before an optimizer
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::WeightDecay<double>>;
Words* words;
