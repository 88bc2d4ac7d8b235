// Search for memory shared by a gradient given in_place and another one: asked for by a flight after gradients have moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/list.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2::detail {

// Two gradients that share an element, the first given in_place; or null twice. Refers to entries of the searched list.
struct SharedMemory {
  GradientMemory const *overwritten = nullptr, *other = nullptr;

  // Returns true if two were found.
  explicit operator bool() const { return overwritten; }
};

// Local. Returns two gradients that share memory, one of them in_place. O(n log n) for n gradients, in one pass after a sort by
// address. Sorts the gradients; the result refers to two of them.
SharedMemory shared_memory(List<GradientMemory>& gradients);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/step/overwritten-inl.hpp"
#endif
