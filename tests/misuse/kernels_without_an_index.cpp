// expect: parallax: PARALLAX_CUDA_INSTANTIATE is given a scalar (float, double), the index of tables
#include <parallax/kernel/cuda.cuh>
#include <parallax/parallax.hpp>

PARALLAX_CUDA_INSTANTIATE(float, parallax::Adagrad, parallax::Sgd)
