// expect: parallax: under Auto a table's rows move between hosts' memory
#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::CudaSpace, px::Auto>;
Words* words;
