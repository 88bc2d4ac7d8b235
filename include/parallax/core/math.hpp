// Arithmetic that rules may use without giving up bits.
#pragma once

#include <cmath>

#include "parallax/core/config.hpp"

namespace parallax {

// The correctly rounded square root (IEEE 754, section 5.4.1), on host and device.
template <class T>
PARALLAX_HOST_DEVICE inline T sqrt(T x) noexcept {
  using std::sqrt;
  return sqrt(x);
}

}  // namespace parallax
