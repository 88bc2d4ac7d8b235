// Measures of optimizers before they move: a few sums over elements, on the host and on devices. Rules return them from
// `measure`, and row operations add them up.
#pragma once

#include <cstddef>

#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {

// K sums over the elements of a unit, like std::array, and on devices too. K may be 0.
template <std::size_t K>
struct Measures {
  // Number of sums: K.
  static constexpr std::size_t count = K;
  // Sums; only the first K mean anything.
  double sums[K > 0 ? K : 1];

  // Returns sum number k < K, to be added to.
  PARALLAX_HOST_DEVICE constexpr double& operator[](std::size_t k) noexcept { return sums[k]; }
  // Returns sum number k < K.
  PARALLAX_HOST_DEVICE constexpr double const& operator[](std::size_t k) const noexcept { return sums[k]; }
  // Returns the first of the K sums.
  PARALLAX_HOST_DEVICE constexpr double const* begin() const noexcept { return sums; }
  // Returns the place behind the last sum.
  PARALLAX_HOST_DEVICE constexpr double const* end() const noexcept { return sums + K; }
};

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Does not own. K sums over each of the parts of a whole, `stride` numbers apart, in memory readable by the caller of `total`.
template <std::size_t K>
struct MeasuredParts {
  // First sum of the first part.
  double const* sums;
  // Number of parts.
  std::size_t parts, stride;  // numbers from one part's first sum to the next one's, at least K

  // Returns the sums over the whole: the parts' added in order, from zero, with the same bits on every rank.
  PARALLAX_HOST_DEVICE Measures<K> total() const noexcept {
    Measures<K> all{};
    for (std::size_t part = 0; part < parts; ++part)
      for (std::size_t k = 0; k < K; ++k) all[k] += sums[part * stride + k];
    return all;
  }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
