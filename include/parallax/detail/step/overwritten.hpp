// Whether a gradient that a step may overwrite shares memory with another one: asked by a flight when gradients have moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "parallax/detail/core/list.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2::detail {

// Two gradients that share an element, of which the first was given in_place; or none.
struct SharedMemory {
  GradientMemory const *overwritten = nullptr, *other = nullptr;

  // Whether two were found.
  explicit operator bool() const { return overwritten; }
};

// Local. O(n log n) for n gradients, in one pass after a sort by address. Sorts the gradients, of which the result refers to
// two.
SharedMemory shared_memory(List<GradientMemory>& gradients);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/step/overwritten-inl.hpp"
#endif
