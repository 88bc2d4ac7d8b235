// Random numbers that are the same with every compiler and C library.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace lm {

using Random = std::mt19937_64;  // its sequence is given by the standard, those of std's distributions are not

// Uniform in [0, 1), a multiple of 2^-53.
inline double uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// Fills with values uniform in [-range, range).
template <class Scalar>
void fill_uniform(std::span<Scalar> values, double range, Random& random) {
  for (Scalar& value : values) value = static_cast<Scalar>((2 * uniform(random) - 1) * range);
}

}  // namespace lm
