#include <cuda_runtime_api.h>
#define SEEN_OF_CUDA cuda_of_toolkit
#include "cuda_names.hpp"
// Brings overloads of CUDA's functions.
#include <nccl.h>
#define SEEN_OF_NCCL nccl_of_toolkit
#include "nccl_names.hpp"
