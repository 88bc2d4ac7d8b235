// Batches of a table that are padded, and how the host learns what was wrong with them. States of tables have one, of their memory's
// space; detail/kernel/cuda/padded_batches.hpp has it for a device.
#pragma once

#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// In the host's memory no table is padded, and there is nothing to learn.
template <MemorySpace Space>
class PaddedBatches {
 public:
  // Whether batches are padded.
  static constexpr bool on() { return false; }
};

}  // namespace parallax
