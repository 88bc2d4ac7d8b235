// Numbers of 16 bits, against what their formats say: computed with ldexp, and by trying both neighbours.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "../catch.hpp"
#include "parallax/detail/core/short_float.hpp"

namespace px = parallax;

namespace {

// Of a format: bits of its exponent and of its mantissa.
struct Format {
  int exponent, mantissa;

  // What a pattern stands for.
  double value(std::uint16_t bits) const {
    int const most = (1 << exponent) - 1, bias = most / 2, e = (bits >> mantissa) & most, m = bits & ((1 << mantissa) - 1);
    double const sign = bits & 0x8000 ? -1 : 1;
    if (e == most) return m ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    if (e == 0) return sign * std::ldexp(m, 1 - bias - mantissa);
    return sign * std::ldexp(m + (1 << mantissa), e - bias - mantissa);
  }
  // The pattern of the nearest, for a value that is a number: the largest finite one is followed by a power of two.
  std::uint16_t nearest(double value) const {
    double const size = std::abs(value);
    std::uint16_t low = 0, high = static_cast<std::uint16_t>(((1 << exponent) - 1) << mantissa);  // infinity
    while (high - low > 1) {
      auto const middle = static_cast<std::uint16_t>((low + high) / 2);
      (this->value(middle) <= size ? low : high) = middle;
    }
    double const above = high == ((1 << exponent) - 1) << mantissa ? std::ldexp(1, 1 << (exponent - 1)) : this->value(high);
    double const down = size - this->value(low), up = above - size;
    bool const rises = up < down || (up == down && (low & 1));
    return static_cast<std::uint16_t>((rises ? high : low) | (std::signbit(value) ? 0x8000 : 0));
  }
};

template <class T>
void check(Format const& format) {
  int wrong = 0;
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    T number;
    number.bits = static_cast<std::uint16_t>(pattern);
    float const wide = number;
    double const expected = format.value(number.bits);
    if (std::isnan(expected)) {
      wrong += !std::isnan(wide) || !std::isnan(static_cast<float>(T{wide}));
      continue;
    }
    wrong +=
        static_cast<double>(wide) != expected || std::signbit(wide) != std::signbit(expected) || T{wide}.bits != number.bits;
    if (std::isinf(wide)) continue;
    // Half way to the next number, and the floats beside it.
    T next;
    next.bits = static_cast<std::uint16_t>(pattern + 1);
    double const after = std::isinf(static_cast<float>(next)) ? std::copysign(std::ldexp(1, 1 << (format.exponent - 1)), wide)
                                                              : format.value(next.bits);
    auto const half = static_cast<float>((static_cast<double>(wide) + after) / 2);
    float const infinite = std::numeric_limits<float>::infinity();
    for (float const value : {half, std::nextafter(half, infinite), std::nextafter(half, -infinite)})
      if (std::isfinite(value)) wrong += T{value}.bits != format.nearest(value);
  }
  CHECK(wrong == 0);
  auto const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  for (int i = 0; i < 1'000'000; ++i) {
    auto const value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(value)) wrong += T{value}.bits != format.nearest(value);
  }
  CHECK(wrong == 0);
  float const infinite = std::numeric_limits<float>::infinity();
  CHECK(static_cast<float>(T{infinite}) == infinite);
  CHECK(static_cast<float>(T{-infinite}) == -infinite);
  CHECK(std::isnan(static_cast<float>(T{std::numeric_limits<float>::quiet_NaN()})));
  CHECK(std::isnan(static_cast<float>(T{std::bit_cast<float>(0x7f800001u)})));  // whose upper half is infinity's
}

}  // namespace

TEST_CASE("a BFloat16 is the upper half of a float, rounded to the nearest", "[core]") { check<px::BFloat16>({8, 7}); }
TEST_CASE("a Float16 is IEEE's binary16, rounded to the nearest", "[core]") { check<px::Float16>({5, 10}); }
