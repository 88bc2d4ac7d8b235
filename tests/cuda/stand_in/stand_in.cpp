#include "../emulator/cuda_runtime_api.h"
#include "../emulator/nccl.h"
#define SEEN_OF_CUDA cuda_of_stand_in
#include "cuda_names.hpp"
#define SEEN_OF_NCCL nccl_of_stand_in
#include "nccl_names.hpp"
