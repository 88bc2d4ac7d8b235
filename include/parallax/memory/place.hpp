// Where memory lies that one rank lends to others.
#pragma once

#include <cstdint>

namespace parallax {

// Where memory lies, for those who share it; what the numbers mean is known to who made it. Travels as bytes.
struct Place {
  std::uint64_t id = 0;  // of the block; 0: cannot be reached
  std::uint64_t offset = 0, bytes = 0;
  std::int32_t process = 0, file = -1;
};

}  // namespace parallax
