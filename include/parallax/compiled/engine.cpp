#define PARALLAX_COMPILING
#define PARALLAX_ENGINE_ONCE template
#include "parallax/compiled/engine.hpp"
