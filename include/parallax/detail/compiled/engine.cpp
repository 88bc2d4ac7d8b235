#define PARALLAX_COMPILING
#define PARALLAX_ENGINE_ONCE template
#include "parallax/detail/compiled/engine.hpp"
// And of what backends share that have ranks of one host.
#include "parallax/detail/transport/host/memory.hpp"
#include "parallax/detail/transport/host/neighbours.hpp"
