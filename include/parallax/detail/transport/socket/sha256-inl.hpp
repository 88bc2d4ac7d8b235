// Bodies of parallax/detail/transport/socket/sha256.hpp.
#pragma once

#include "parallax/detail/transport/socket/sha256.hpp"

#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE bool same_code(Digest const& one, Digest const& other) {
  std::byte differences{0};
  for (std::size_t i = 0; i < one.size(); ++i) differences |= one[i] ^ other[i];
  return differences == std::byte{0};
}

}  // namespace parallax::detail
