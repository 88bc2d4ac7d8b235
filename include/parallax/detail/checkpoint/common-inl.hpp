// Bodies of parallax/detail/checkpoint/common.hpp.
#pragma once

#include "parallax/detail/checkpoint/common.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::chrono::nanoseconds patience(double seconds) {
  return std::chrono::nanoseconds{static_cast<std::int64_t>(std::min(seconds, 1e9) * 1e9)};
}

}  // namespace parallax::detail
