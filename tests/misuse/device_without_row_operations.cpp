// expect: parallax: no row operations are known for this memory space
#include <parallax/memory/cuda.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::CudaSpace>;
Words* words;
