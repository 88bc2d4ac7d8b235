// Orders that the emulator's streams run in.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace emulated {

// While it lives streams are deferred, and run in an order drawn from a seed.
struct Deferred {
  explicit Deferred(std::uint64_t seed) {
    emulator::Locked const locked{emulator::mutex};
    emulator::deferred = true;
    emulator::stream_seed = seed * 2 + 1;
  }
  Deferred(Deferred const&) = delete;
  ~Deferred() { emulator::deferred = false; }
};

// The first of a test's seeds: PARALLAX_SEED, or 1. Printed.
inline std::uint64_t first_seed(char const* what) {
  char const* const given = std::getenv("PARALLAX_SEED");
  std::uint64_t const seed = given ? std::strtoull(given, nullptr, 10) : 1;
  std::printf("%s: seeds from %llu\n", what, static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace emulated
