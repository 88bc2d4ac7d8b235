// What optimizers measure before they move: a few sums over elements, on the host and on devices.
#pragma once

#include <cstddef>

#include "parallax/core/config.hpp"

namespace parallax {

// K numbers, like std::array, and on devices too.
template <std::size_t K>
struct Measures {
  static constexpr std::size_t count = K;
  double sums[K > 0 ? K : 1];

  PARALLAX_HOST_DEVICE constexpr double& operator[](std::size_t k) noexcept { return sums[k]; }
  PARALLAX_HOST_DEVICE constexpr double const& operator[](std::size_t k) const noexcept { return sums[k]; }
  PARALLAX_HOST_DEVICE constexpr double const* begin() const noexcept { return sums; }
  PARALLAX_HOST_DEVICE constexpr double const* end() const noexcept { return sums + K; }
};

// Does not own. K sums over each of the parts of a whole, `stride` numbers apart.
template <std::size_t K>
struct MeasuredParts {
  double const* sums;
  std::size_t parts, stride;

  // Of the whole: those of its parts added in order, from zero.
  PARALLAX_HOST_DEVICE Measures<K> total() const noexcept {
    Measures<K> all{};
    for (std::size_t part = 0; part < parts; ++part)
      for (std::size_t k = 0; k < K; ++k) all[k] += sums[part * stride + k];
    return all;
  }
};

}  // namespace parallax
