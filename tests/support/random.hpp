// Random numbers by a seed, alike on every machine: tests draw their programs from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace parallax_test {

class Random {
 public:
  // Mixes the seed, so that no seed's numbers are another's, shifted.
  explicit Random(std::uint64_t seed) : state_{mixed(mixed(seed + 1) + 0x632be59bd9b4e019u)} {}
  std::uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15u); }
  // Returns a number from 0 to n - 1, n > 0.
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool percent(int p) { return below(100) < p; }
  template <class T, std::size_t n>
  T of(std::array<T, n> const& choices) {
    return choices[static_cast<std::size_t>(below(static_cast<int>(n)))];
  }

 private:
  static std::uint64_t mixed(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace parallax_test
