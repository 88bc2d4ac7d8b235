// expect: parallax: NaivePs pushes indexed rows and has no dense form
#include <parallax/parallax.hpp>

namespace px = parallax;

using Weights = px::Variable<px::Dense, px::NaivePs>;
Weights* weights;
