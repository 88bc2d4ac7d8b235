// expect: parallax: AllGather gathers indexed rows and has no dense form
#include <parallax/parallax.hpp>

namespace px = parallax;

using Weights = px::Variable<px::Dense, px::AllGather>;
Weights* weights;
