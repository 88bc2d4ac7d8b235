// A checksum of memory: every bit counts, and so does where it stands.
#include "parallax/detail/core/checksum.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "../catch.hpp"

using parallax::detail::checksum;

TEST_CASE("a checksum is of all bits, of their places and of how many there are", "[core][checksum]") {
  std::uint64_t const seed = 20;
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  for (std::size_t size = 0; size <= 200; ++size) {
    std::vector<unsigned char> memory(size + 8);
    for (auto& byte : memory) byte = static_cast<unsigned char>(random());
    auto const whole = checksum(memory.data(), size);
    CHECK(checksum(std::vector<unsigned char>(memory).data(), size) == whole);  // wherever it lies
    std::vector<unsigned char> moved(size + 9);
    if (size > 0) std::memcpy(moved.data() + 1, memory.data(), size);
    CHECK(checksum(moved.data() + 1, size) == whole);
    std::set<std::uint64_t> all{whole, checksum(memory.data(), size + 1)};
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      memory[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
      all.insert(checksum(memory.data(), size));
      memory[bit / 8] ^= static_cast<unsigned char>(1u << (bit % 8));
    }
    CHECK(all.size() == 2 + 8 * size);
  }
}

TEST_CASE("zeros of different lengths and swapped words have different checksums", "[core][checksum]") {
  std::vector<std::uint64_t> words(64, 0);
  std::set<std::uint64_t> all;
  for (std::size_t bytes = 0; bytes <= 512; ++bytes) all.insert(checksum(words.data(), bytes));
  CHECK(all.size() == 513);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = i;
  auto const whole = checksum(words.data(), 512);
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::swap(words[0], words[i]);
    CHECK(checksum(words.data(), 512) != whole);
    std::swap(words[0], words[i]);
  }
}
