// expect: parallax: NaivePs pushes indexed rows and has no dense form
#include <parallax/parallax.hpp>
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace px = parallax;

using Weights = px::Variable<px::Dense, baseline::NaivePs>;
Weights* weights;
