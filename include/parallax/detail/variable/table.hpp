// The shape and the first values of a table owned by the library. A trainer gives a Table to the constructor of a Sparse
// variable.
#pragma once

#include <cstdint>
#include <numbers>

#include "parallax/core/fields.hpp"
#include "parallax/detail/core/math.hpp"

namespace parallax::inline v0_2 {

// A table's first values: a function of (seed, name of the variable, global row, column) alone, independent of the number of
// ranks and of a row's owner.
struct Initializer {
  // Distributions of values: all alike, evenly between two bounds, or normally.
  enum class Distribution : unsigned char { constant, uniform, normal };
  // The distribution; `constant` by default.
  Distribution distribution = Distribution::constant;
  // Bounds, or the mean of a normal distribution.
  double low = 0.0, high = 0.0;  // the upper bound, or the standard deviation
  // Another seed gives other values.
  std::uint64_t seed = 0;

  // Compares all of it.
  friend bool operator==(Initializer const&, Initializer const&) = default;

  // Returns the value of element (row, column) of the table whose name has this hash, the same on all ranks. Called once for
  // each element, by its holder.
  double value(std::uint64_t name_hash, std::int64_t row, std::int64_t column) const {
    if (distribution == Distribution::constant) return low;
    return drawn(name_hash, row, column);
  }
  // Returns the value of an element, not `constant`, by its distribution.
  double drawn(std::uint64_t name_hash, std::int64_t row, std::int64_t column) const;

  // Returns a number in [0, 1) of the 53 highest of `bits`, for `value`.
  static double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }
};

PARALLAX_STRICT_ARITHMETIC_BEGIN
inline double Initializer::drawn(std::uint64_t name_hash, std::int64_t row, std::int64_t column) const {
  PARALLAX_NO_CONTRACT
  Fingerprint hash;
  hash.add(seed);
  hash.add(name_hash);
  hash.add(static_cast<std::uint64_t>(row));
  hash.add(static_cast<std::uint64_t>(column));
  double const first = unit(hash.value());
  if (distribution == Distribution::uniform) return low + (high - low) * first;
  hash.add(std::uint64_t{1});
  // Box and Muller, Annals of Mathematical Statistics 29 (1958)
  double const radius = detail::square_root(-2.0 * detail::log1p(-first));
  return low + high * radius * detail::cos(2.0 * std::numbers::pi * unit(hash.value()));
}
PARALLAX_STRICT_ARITHMETIC_END

// Returns an initializer of equal elements.
inline Initializer constant(double value) { return {Initializer::Distribution::constant, value, value, 0}; }
// Returns an initializer of elements drawn evenly between `low` and `high`, independent of each other.
inline Initializer uniform(double low, double high, std::uint64_t seed = 0) {
  return {Initializer::Distribution::uniform, low, high, seed};
}
// Returns an initializer of elements drawn normally, of mean 0 and this standard deviation, independent of each other.
inline Initializer normal(double deviation, std::uint64_t seed = 0) {
  return {Initializer::Distribution::normal, 0.0, deviation, seed};
}

// A table of `rows` rows of `width` elements, row-major, of all ranks together. All ranks give the same.
struct Table {
  // Number of rows, at most as many as the index type has numbers; 0 is allowed.
  std::int64_t rows = 0;
  // Elements of a row.
  std::int64_t width = 0;
  // The first values: zeros by default.
  Initializer initial = {};
};

// A setting of a table on a device, under PsShard: of each rank's rows a batch may name so many, and exactly so many places
// travel, whatever it names. So the host learns nothing of batches, and waits for nothing; indices are px::on_device, and past
// all levels of the topology go to the owners. The device finds batches with more rows of one rank, with an index outside the
// table that is an error, and with wrong offsets of bags: all ranks leave out the table's update of such a batch, which counts
// as a step, and pulled rows of it mean nothing. It is told, as an Error on all ranks, by the next call on the table that finds
// it there: at the latest by `finish`, or as a checkpoint begins.
struct Padded {
  // Rows of one rank, at least 1.
  std::uint32_t capacity = 0;
};

// Tables kept as one, in variable/stack.hpp.
class Stack;

}  // namespace parallax
