// expect: parallax: tables of BFloat16 and Float16 are in the host's memory: leave out the memory space, or take float
#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::CudaSpace, px::BFloat16>;

Words const* words() { return nullptr; }
