// The kernels of the library parallax::compiled_cuda, and the sort that they call.
#define PARALLAX_COMPILING_KERNELS
#define PARALLAX_KERNELS_ONCE template
#include "parallax/kernel/cuda.cuh"
// Its contents.
#include "parallax/detail/compiled/kernels.hpp"
