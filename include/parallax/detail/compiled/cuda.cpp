#define PARALLAX_DEVICE_ENGINE_ONCE template
#include "parallax/detail/compiled/cuda.hpp"
