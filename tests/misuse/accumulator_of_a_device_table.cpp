// expect: parallax: an Accumulator sums on the host: give a device's updates to `start`
#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

void train(px::Variable<px::Sparse, px::CudaSpace> const& words) { px::Accumulator sums{words}; }
