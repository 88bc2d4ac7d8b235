// What trainer.cpp needs of the kernels, and a rule that measures tensors: the program's one file for nvcc.
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/detail/optimizer/adam.hpp"
#include "parallax/detail/optimizer/lamb.hpp"
#include "parallax/detail/optimizer/rowwise_adagrad.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/optimizer/sgd.hpp"

PARALLAX_CUDA_INSTANTIATE(float, std::int64_t, parallax::Adagrad, parallax::Sgd)
PARALLAX_CUDA_INSTANTIATE(double, std::int32_t, parallax::LazyAdam)
PARALLAX_CUDA_INSTANTIATE(float, std::int32_t, parallax::Sgd, parallax::RowwiseAdagrad, parallax::Lamb)
