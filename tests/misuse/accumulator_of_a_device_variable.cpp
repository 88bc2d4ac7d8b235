// expect: parallax: an Accumulator sums on the host: give a device's updates to `start`
#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

void train(px::Variable<px::Dense, px::CudaSpace> const& layer) { px::Accumulator sums{layer}; }
