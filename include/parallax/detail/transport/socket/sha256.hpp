// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 4231): by them ranks over sockets prove to each other that they know the key of
// their job. The handshake in detail/transport/socket/greeting.hpp calls it, for some hundred bytes at a time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace parallax::inline v0_2::detail {

// Digest of 32 bytes, in the standard's order.
using Digest = std::array<std::byte, 32>;

// The digest of bytes given one after another.
class Sha256 {
 public:
  // Adds bytes at the end of the message.
  void add(std::span<std::byte const> bytes) {
    length_ += bytes.size();
    for (std::byte const byte : bytes) {
      block_[filled_++] = byte;
      if (filled_ == block_.size()) mix();
    }
  }
  // Returns the digest of all bytes. Nothing may be added afterwards.
  Digest digest() {
    std::uint64_t const bits = 8 * length_;
    block_[filled_++] = std::byte{0x80};
    if (filled_ > block_.size() - sizeof bits) {
      pad(block_.size());
      mix();
    }
    pad(block_.size() - sizeof bits);
    for (int shift = 56; shift >= 0; shift -= 8) block_[filled_++] = static_cast<std::byte>(bits >> shift);
    mix();
    Digest result;
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return result;
  }

 private:
  // Fills the block with zeros as far as byte `end`.
  void pad(std::size_t end) {
    while (filled_ < end) block_[filled_++] = std::byte{0};
  }

  // Takes the full block into the state, and begins an empty one.
  void mix() {
    std::array<std::uint32_t, 64> schedule;
    for (std::size_t i = 0; i < 16; ++i) schedule[i] = word(4 * i);
    for (std::size_t i = 16; i < 64; ++i)
      schedule[i] = small_sigma<17, 19, 10>(schedule[i - 2]) + schedule[i - 7] + small_sigma<7, 18, 3>(schedule[i - 15]) +
                    schedule[i - 16];
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      std::uint32_t const first = h + large_sigma<6, 11, 25>(e) + ((e & f) ^ (~e & g)) + round_constants[i] + schedule[i];
      std::uint32_t const second = large_sigma<2, 13, 22>(a) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first;
      d = c, c = b, b = a, a = first + second;
    }
    std::array<std::uint32_t, 8> const mixed{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
    filled_ = 0;
  }
  // Returns the word of the block from this byte on; the first byte is the highest.
  std::uint32_t word(std::size_t at) const {
    std::uint32_t result = 0;
    for (std::size_t i = 0; i < 4; ++i) result = result << 8 | std::to_integer<std::uint32_t>(block_[at + i]);
    return result;
  }
  // The functions sigma of the standard, by the distances of their rotations and of their shift.
  template <int one, int other, int shift>
  static std::uint32_t small_sigma(std::uint32_t x) {
    return std::rotr(x, one) ^ std::rotr(x, other) ^ (x >> shift);
  }
  template <int one, int other, int third>
  static std::uint32_t large_sigma(std::uint32_t x) {
    return std::rotr(x, one) ^ std::rotr(x, other) ^ std::rotr(x, third);
  }

  // Of the cube roots of the first 64 primes, 32 bits behind the point.
  static constexpr std::array<std::uint32_t, 64> round_constants{
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
      0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
      0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
      0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
      0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
      0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

  // Of the square roots of the first eight primes, 32 bits behind the point, until something is mixed in.
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block_{};
  std::size_t filled_ = 0;    // bytes of the block
  std::uint64_t length_ = 0;  // bytes of the message
};

// The HMAC code of a message under a key, both of any length.
class Hmac {
 public:
  // Begins a message, with a copy of the key.
  explicit Hmac(std::span<std::byte const> key) {
    Digest shorter;
    if (key.size() > key_.size()) {
      Sha256 hash;
      hash.add(key);
      shorter = hash.digest();
      key = shorter;
    }
    if (!key.empty()) std::memcpy(key_.data(), key.data(), key.size());
    inner_.add(masked(std::byte{0x36}));
  }
  // Adds bytes at the end of the message.
  void add(std::span<std::byte const> bytes) { inner_.add(bytes); }
  // Returns the code of all bytes. Nothing may be added afterwards.
  Digest code() {
    Digest const inner = inner_.digest();
    Sha256 outer;
    outer.add(masked(std::byte{0x5c}));
    outer.add(inner);
    return outer.digest();
  }

 private:
  // Returns the key, each byte combined with `mask` by «exclusive or».
  std::array<std::byte, 64> masked(std::byte mask) const {
    std::array<std::byte, 64> result = key_;
    for (std::byte& byte : result) byte ^= mask;
    return result;
  }

  std::array<std::byte, 64> key_{};
  Sha256 inner_;
};

// Returns true if two codes are equal, in a time that does not depend on the place of a difference.
inline bool same_code(Digest const& one, Digest const& other) {
  std::byte differences{0};
  for (std::size_t i = 0; i < one.size(); ++i) differences |= one[i] ^ other[i];
  return differences == std::byte{0};
}

}  // namespace parallax::detail
