// expect: parallax: rows are edited in the host's memory, and these are a device's
#include <utility>

#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

using Words = px::Variable<px::Sparse, px::CudaSpace, px::Subtract>;
void train(px::PulledRows<Words::State>& rows) { std::move(rows).editable(); }
