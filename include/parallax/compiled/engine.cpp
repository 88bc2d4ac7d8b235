#define PARALLAX_COMPILING
#define PARALLAX_ENGINE_ONCE template
#include "parallax/compiled/engine.hpp"
// And of what backends share that have ranks of one host.
#include "parallax/comm/host/memory.hpp"
#include "parallax/comm/host/neighbours.hpp"
