// What the emulator tells of the order in which threads of a kernel touch memory, to who watches it: each program that is compiled with
// PARALLAX_EMULATOR_ORDER has tests/cuda/touched.cpp for that. Elsewhere nobody is told.
#pragma once

#include <cstddef>

namespace emulator::order {

#if defined(PARALLAX_EMULATOR_ORDER)
// A launch begins: all before it has happened.
void begin_launch();
// A block of it begins, with so much shared memory. Nothing puts it in an order with the others.
void begin_block(void const* shared, std::size_t bytes);
// From here on this thread of the block runs a kernel's own lines.
void watch(unsigned thread);
// From here on nobody does.
void look_away();
// All threads of the block have met at a barrier.
void meet();
// So have those lanes of the warp that begins with thread `first`, at a __syncwarp; what else they do together orders no memory.
void meet(unsigned first, unsigned mask);
#else
inline void begin_launch() {}
inline void begin_block(void const*, std::size_t) {}
inline void watch(unsigned) {}
inline void look_away() {}
inline void meet() {}
inline void meet(unsigned, unsigned) {}
#endif

}  // namespace emulator::order
