// Where memory lies that one rank lends to others. Communicators that lend memory make places of it and find them again.
#pragma once

#include <cstdint>

namespace parallax::inline v0_2 {

// Where memory lies, for those who share it; what the numbers mean is known to who made it. Travels as bytes. A rank asks its
// communicator for the place of its own memory, and the peer that is sent the place asks for the address; a place owns
// nothing and keeps nothing alive.
struct Place {
  std::uint64_t id = 0;  // of the block; 0: cannot be reached
  // Bytes from the block's beginning to what is lent. Between threads of one process it is the address itself.
  std::uint64_t offset = 0, bytes = 0;  // of the whole block, which between threads ends nowhere
  // The process that owns the block. Only blocks of SharedSpace have it, and a file.
  std::int32_t process = 0, file = -1;  // the block's descriptor in that process, by which another one opens it
};

}  // namespace parallax
