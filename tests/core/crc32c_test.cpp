// CRC-32C: published values, and those of a loop over bits.
#include "parallax/detail/core/crc32c.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "../catch.hpp"

namespace {

namespace detail = parallax::detail;

// Returns the sum, divided bit by bit.
std::uint32_t by_bits(std::vector<std::byte> const& bytes, std::size_t begin, std::size_t size) {
  std::uint32_t rest = 0xffffffff;
  for (std::size_t i = 0; i < size; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      bool const one = ((rest ^ (static_cast<std::uint32_t>(bytes[begin + i]) >> bit)) & 1) != 0;
      rest = (rest >> 1) ^ (one ? 0x82f63b78 : 0);
    }
  return ~rest;
}

}  // namespace

TEST_CASE("CRC-32C has the values of RFC 3720", "[core][checksum]") {
  std::vector<std::byte> bytes(32);
  CHECK(detail::crc32c(0, bytes.data(), 32) == 0x8a9136aa);
  std::memset(bytes.data(), 0xff, 32);
  CHECK(detail::crc32c(0, bytes.data(), 32) == 0x62a8ab43);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
  CHECK(detail::crc32c(0, bytes.data(), 32) == 0x46dd794e);
  for (std::size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(31 - i);
  CHECK(detail::crc32c(0, bytes.data(), 32) == 0x113fdb5c);
  CHECK(detail::crc32c(0, "123456789", 9) == 0xe3069283);
}

TEST_CASE("CRC-32C by instructions, by tables and by bits is one, wherever bytes lie and however they are cut",
          "[core][checksum]") {
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 dice{seed};
  std::vector<std::byte> bytes(20'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(dice());
  for (int round = 0; round < 60; ++round) {
    std::size_t const begin = dice() % 64,
                      most = round % 3 == 0   ? 100
                             : round % 3 == 1 ? 2'000
                                              : 19'000,
                      size = dice() % most, cut = size > 0 ? dice() % size : 0;
    CAPTURE(begin, size, cut);
    std::byte const* const at = bytes.data() + begin;
    std::uint32_t const expected = by_bits(bytes, begin, size);
    CHECK(detail::crc32c(0, at, size) == expected);
    CHECK(detail::crc32c(detail::crc32c(0, at, cut), at + cut, size - cut) == expected);
    CHECK(~detail::crc32c_by_tables(0xffffffff, at, size) == expected);
    if (size >= 256 && detail::machine_multiplies_widely())
      CHECK(~detail::crc32c_by_products(0xffffffff, at, size) == expected);
    if (detail::machine_has_crc32c()) CHECK(~detail::crc32c_by_instructions(0xffffffff, at, size) == expected);
  }
}
