// Kernels instantiated as they should be: lines that overlap, and one without optimizers.
#include <cstdint>

#include <parallax/kernel/cuda.cuh>
#include <parallax/parallax.hpp>

PARALLAX_CUDA_INSTANTIATE(float, std::int64_t, parallax::Adagrad, parallax::Sgd)
PARALLAX_CUDA_INSTANTIATE(float, std::int32_t, parallax::Adagrad, parallax::Adam)
PARALLAX_CUDA_INSTANTIATE(double, std::int64_t)
