// expect: parallax: PARALLAX_CUDA_INSTANTIATE is given a scalar (float, double; of tables BFloat16, Float16), the index of tables
#include <parallax/kernel/cuda.cuh>
#include <parallax/parallax.hpp>

PARALLAX_CUDA_INSTANTIATE(float, parallax::Adagrad, parallax::Sgd)
