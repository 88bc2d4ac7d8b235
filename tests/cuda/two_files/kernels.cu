// What trainer.cpp needs of the kernels, and a rule that measures tensors: the program's one file for nvcc.
#include "parallax/kernel/cuda.cuh"
#include "parallax/optimizer/adagrad.hpp"
#include "parallax/optimizer/adam.hpp"
#include "parallax/optimizer/lamb.hpp"
#include "parallax/optimizer/rowwise_adagrad.hpp"
#include "parallax/optimizer/sgd.hpp"

PARALLAX_CUDA_INSTANTIATE(float, std::int64_t, parallax::Adagrad, parallax::Sgd)
PARALLAX_CUDA_INSTANTIATE(double, std::int32_t, parallax::LazyAdam)
PARALLAX_CUDA_INSTANTIATE(float, std::int32_t, parallax::Sgd, parallax::RowwiseAdagrad, parallax::Lamb)
