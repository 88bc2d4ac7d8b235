// What trainer.cpp needs of the kernels, and a rule that measures tensors: the program's one file for nvcc.
#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"

PARALLAX_CUDA_INSTANTIATE(float, std::int64_t, parallax::Adagrad, parallax::Sgd)
PARALLAX_CUDA_INSTANTIATE(double, std::int32_t, parallax::LazyAdam)
PARALLAX_CUDA_INSTANTIATE(float, std::int32_t, parallax::Sgd, parallax::RowwiseAdagrad, parallax::Lamb)
