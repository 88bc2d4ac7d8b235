// Places of memory lent by one rank to others. Communicators that lend memory make places of it and find them again.
#pragma once

#include <cstdint>

namespace parallax::inline v0_2 {

// The place of memory, for ranks that share it; its maker knows the meaning of the numbers. Travels as bytes. A rank asks its
// communicator for the place of its own memory, and the peer given the place asks for the address; a place owns nothing and
// keeps nothing alive.
struct Place {
  std::uint64_t id = 0;  // of the block; 0: cannot be reached
  // Bytes from the block's beginning to the lent memory. Between threads of one process it is the address itself.
  std::uint64_t offset = 0, bytes = 0;  // of the whole block; between threads it ends nowhere
  // The process that owns the block. Only blocks of SharedSpace have it, and a file.
  std::int32_t process = 0, file = -1;  // the block's descriptor in the owner's process, for another one to open
};

}  // namespace parallax
