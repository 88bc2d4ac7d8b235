// What a device has found wrong with the batches of padded tables, and how the host learns of it. States of tables have one, of
// their memory's space; kernel/cuda/padding_log.hpp has it for a device.
#pragma once

#include "parallax/memory/space.hpp"

namespace parallax {

// In the host's memory there are no padded tables, and nothing to learn.
template <MemorySpace Space>
class PaddingLog {};

}  // namespace parallax
