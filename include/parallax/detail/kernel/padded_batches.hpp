// Padded batches of a table, and the way of their errors to the host. States of tables have one, of their memory's space;
// detail/kernel/cuda/padded_batches.hpp has it for a device.
#pragma once

#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// In the host's memory no table is padded, and there is nothing to learn.
template <MemorySpace Space>
class PaddedBatches {
 public:
  // Returns true if batches are padded.
  static constexpr bool on() { return false; }
};

}  // namespace parallax
