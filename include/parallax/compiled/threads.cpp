#define PARALLAX_COMPILING_THREADS
#include "parallax/comm/thread.hpp"
