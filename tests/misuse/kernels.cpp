// Kernels instantiated without an index; as they should be, lines overlap, and one names no optimizers.
#include <cstdint>

#include <parallax/kernel/cuda.cuh>
#include <parallax/parallax.hpp>

#if defined(kernels_without_an_index)
// expect: parallax: PARALLAX_CUDA_INSTANTIATE is given a scalar (float, double; of tables BFloat16, Float16), the index of tables
PARALLAX_CUDA_INSTANTIATE(float, parallax::Adagrad, parallax::Sgd)
#elif defined(ok_kernels)
PARALLAX_CUDA_INSTANTIATE(float, std::int64_t, parallax::Adagrad, parallax::Sgd)
PARALLAX_CUDA_INSTANTIATE(float, std::int32_t, parallax::Adagrad, parallax::Adam)
PARALLAX_CUDA_INSTANTIATE(double, std::int64_t)
#endif
