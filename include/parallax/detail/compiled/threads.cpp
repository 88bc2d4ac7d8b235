#define PARALLAX_COMPILING_THREADS
#include "parallax/comm/run.hpp"
