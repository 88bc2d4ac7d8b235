// Where the bodies of launching are compiled: in every program that includes them, or once, in the library parallax::compiled,
// beside those of threads. detail/core/config.hpp says the same of the engine.
#pragma once

#include "parallax/detail/core/config.hpp"

// Whether this translation unit compiles those bodies: 1, or 0 where the library has them.
#if !defined(PARALLAX_COMPILED) || defined(PARALLAX_COMPILING_THREADS)
#define PARALLAX_LAUNCH_BODIES 1
#else
#define PARALLAX_LAUNCH_BODIES 0
#endif
