// What optimizers measure before they move: a few sums over elements, on the host and on devices. Rules return them from
// `measure`, and row operations add them up.
#pragma once

#include <cstddef>

#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {

// K sums over the elements of a unit, like std::array, and on devices too. K may be 0.
template <std::size_t K>
struct Measures {
  // How many sums there are: K.
  static constexpr std::size_t count = K;
  // The sums, of which only the first K mean anything.
  double sums[K > 0 ? K : 1];

  // Sum number k < K, to be added to.
  PARALLAX_HOST_DEVICE constexpr double& operator[](std::size_t k) noexcept { return sums[k]; }
  // Sum number k < K.
  PARALLAX_HOST_DEVICE constexpr double const& operator[](std::size_t k) const noexcept { return sums[k]; }
  // The first of the K sums.
  PARALLAX_HOST_DEVICE constexpr double const* begin() const noexcept { return sums; }
  // Behind the last of them.
  PARALLAX_HOST_DEVICE constexpr double const* end() const noexcept { return sums + K; }
};

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Does not own. K sums over each of the parts of a whole, `stride` numbers apart, in memory that the caller of `total` can
// read.
template <std::size_t K>
struct MeasuredParts {
  // The first part's first sum.
  double const* sums;
  // How many parts there are.
  std::size_t parts, stride;  // numbers from one part's first sum to the next one's, at least K

  // The sums over the whole: those of its parts added in order, from zero, so that every rank gets the same bits.
  PARALLAX_HOST_DEVICE Measures<K> total() const noexcept {
    Measures<K> all{};
    for (std::size_t part = 0; part < parts; ++part)
      for (std::size_t k = 0; k < K; ++k) all[k] += sums[part * stride + k];
    return all;
  }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
