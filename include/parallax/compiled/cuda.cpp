#define PARALLAX_DEVICE_ENGINE_ONCE template
#include "parallax/compiled/cuda.hpp"
