// CRC-32C (Castagnoli), as in iSCSI and ext4: a sum that finds flipped bits of a wire. Connections between ranks
// (detail/transport/socket/connection.hpp) take it of all bytes sent and read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace parallax::inline v0_2::detail {

// Tables for 8 bytes at a time: `table[k][b]` is the remainder of byte b with k bytes of zeros behind it.
struct Crc32cTables {
  static constexpr std::uint32_t polynomial = 0x82f63b78;  // its bits in the order of the wire
  std::array<std::array<std::uint32_t, 256>, 8> table{};

  constexpr Crc32cTables() {
    for (std::uint32_t b = 0; b < 256; ++b) {
      std::uint32_t rest = b;
      for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? polynomial : 0);
      table[0][b] = rest;
    }
    for (std::size_t k = 1; k < 8; ++k)
      for (std::uint32_t b = 0; b < 256; ++b) table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 255];
  }
};
inline constexpr Crc32cTables crc32c_tables;

// Returns the product of two remainders: of polynomials over bits, with x to the power of 0 as the highest bit.
constexpr std::uint32_t crc32c_product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a >> 31) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? Crc32cTables::polynomial : 0);
  }
  return product;
}

// A remainder with a power of two of bytes of zeros behind it: its product with x to the power of their bits, looked up byte by
// byte.
struct Crc32cShift {
  std::array<std::array<std::uint32_t, 256>, 4> table{};

  constexpr explicit Crc32cShift(std::size_t bytes) {
    std::uint32_t factor = std::uint32_t{1} << 23;  // x^8
    for (; bytes > 1; bytes /= 2) factor = crc32c_product(factor, factor);
    for (std::uint32_t k = 0; k < 4; ++k)
      for (std::uint32_t b = 1; b < 256; ++b) {
        std::uint32_t const rest = b & (b - 1);  // it is linear
        table[k][b] = rest != 0 ? table[k][rest] ^ table[k][b ^ rest] : crc32c_product(factor, b << 8 * k);
      }
  }
  constexpr std::uint32_t operator()(std::uint32_t rest) const {
    return table[0][rest & 255] ^ table[1][rest >> 8 & 255] ^ table[2][rest >> 16 & 255] ^ table[3][rest >> 24];
  }
};

inline std::uint64_t crc32c_word(std::byte const* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Goes on from a remainder, and returns the next one, as the two functions below: bits are not inverted here.
inline std::uint32_t crc32c_by_tables(std::uint32_t rest, std::byte const* at, std::size_t bytes) {
  auto const& table = crc32c_tables.table;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint32_t next = 0;
    for (std::size_t k = 0; k < 8; ++k)  // byte by byte: the order of a machine's bytes does not matter
      next ^= table[7 - k][(k < 4 ? rest >> 8 * k & 255 : 0) ^ static_cast<std::uint32_t>(at[k])];
    rest = next;
  }
  for (; bytes > 0; ++at, --bytes) rest = (rest >> 8) ^ table[0][(rest ^ static_cast<std::uint32_t>(*at)) & 255];
  return rest;
}

// An instruction takes 8 bytes, begins each cycle and ends three later: so three runs are taken at a time. Each goes on from
// nothing and is put behind the one before. (Method: V. Gopal et al., «Fast CRC Computation for iSCSI Polynomial Using CRC32
// Instruction», Intel 2011.)
#if defined(__x86_64__)
#define PARALLAX_CRC_TARGET __attribute__((target("sse4.2")))
#define PARALLAX_CRC_WORD(rest, word) static_cast<std::uint32_t>(__builtin_ia32_crc32di(rest, word))
#define PARALLAX_CRC_BYTE(rest, byte) __builtin_ia32_crc32qi(rest, byte)
inline bool machine_has_crc32c() { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__) && defined(__linux__) && !defined(__clang__)
#define PARALLAX_CRC_TARGET __attribute__((target("+crc")))
#define PARALLAX_CRC_WORD(rest, word) __builtin_aarch64_crc32cx(rest, word)
#define PARALLAX_CRC_BYTE(rest, byte) __builtin_aarch64_crc32cb(rest, byte)
inline bool machine_has_crc32c() { return (::getauxval(AT_HWCAP) & (1ul << 7)) != 0; }  // HWCAP_CRC32
#elif defined(__aarch64__) && defined(__linux__)
#define PARALLAX_CRC_TARGET __attribute__((target("crc")))
#define PARALLAX_CRC_WORD(rest, word) __builtin_arm_crc32cd(rest, word)
#define PARALLAX_CRC_BYTE(rest, byte) __builtin_arm_crc32cb(rest, byte)
inline bool machine_has_crc32c() { return (::getauxval(AT_HWCAP) & (1ul << 7)) != 0; }  // HWCAP_CRC32
#endif

#if defined(PARALLAX_CRC_TARGET)
inline constexpr std::size_t crc32c_long = 2048, crc32c_short = 256;  // bytes of each of the three
inline constexpr Crc32cShift crc32c_behind_long{crc32c_long}, crc32c_behind_short{crc32c_short};

PARALLAX_CRC_TARGET inline std::uint32_t crc32c_by_instructions(std::uint32_t rest, std::byte const* at, std::size_t bytes) {
  for (std::size_t const run : {crc32c_long, crc32c_short}) {
    Crc32cShift const& behind = run == crc32c_long ? crc32c_behind_long : crc32c_behind_short;
    for (; bytes >= 3 * run; at += 3 * run, bytes -= 3 * run) {
      std::uint32_t second = 0, third = 0;
      for (std::size_t i = 0; i < run; i += 8) {
        if (i % 64 == 0 && run == crc32c_long)  // uncached bytes come sooner: three places at once are none to foresee
          for (std::size_t k = 3; k < 6; ++k) __builtin_prefetch(at + k * run + i);
        rest = PARALLAX_CRC_WORD(rest, crc32c_word(at + i));
        second = PARALLAX_CRC_WORD(second, crc32c_word(at + run + i));
        third = PARALLAX_CRC_WORD(third, crc32c_word(at + 2 * run + i));
      }
      rest = behind(behind(rest) ^ second) ^ third;
    }
  }
  for (; bytes >= 8; at += 8, bytes -= 8) rest = PARALLAX_CRC_WORD(rest, crc32c_word(at));
  for (; bytes > 0; ++at, --bytes) rest = PARALLAX_CRC_BYTE(rest, static_cast<std::uint8_t>(*at));
  return rest;
}
#undef PARALLAX_CRC_TARGET
#undef PARALLAX_CRC_WORD
#undef PARALLAX_CRC_BYTE
#else
constexpr bool machine_has_crc32c() { return false; }
inline std::uint32_t crc32c_by_instructions(std::uint32_t rest, std::byte const* at, std::size_t bytes) {
  return crc32c_by_tables(rest, at, bytes);
}
#endif

#if defined(__x86_64__) && !defined(__CUDACC__)
inline bool machine_multiplies_widely() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"); }

// Goes on from a remainder by products, four vectors at a time: 256 bytes with 256 bytes of zeros behind them are reduced to
// 256, and added to the next, until 256 are left. Takes at least 256 bytes. (Method: V. Gopal et al., «Fast CRC Computation for
// Generic Polynomials Using PCLMULQDQ Instruction», Intel 2009; the factors are x to the power of 2,080 and 2,016, as there.)
__attribute__((target("avx512f,vpclmulqdq"))) inline std::uint32_t crc32c_by_products(std::uint32_t rest, std::byte const* at,
                                                                                      std::size_t bytes) {
  using Vector = long long __attribute__((vector_size(64)));
  constexpr long long one = 0xdcb17aa4, other = 0xb9e02b86;
  Vector const factors{one, other, one, other, one, other, one, other};
  Vector sums[4];
  constexpr std::size_t at_once = sizeof sums, ahead = 4096;
  std::memcpy(sums, at, at_once);
  sums[0][0] ^= rest;
  for (at += at_once, bytes -= at_once; bytes >= at_once; at += at_once, bytes -= at_once)
    for (std::size_t i = 0; i < 4; ++i) {
      Vector next;
      std::memcpy(&next, at + i * sizeof next, sizeof next);
      __builtin_prefetch(at + ahead + i * sizeof next);
#if defined(__clang__)
      sums[i] = __builtin_ia32_pclmulqdq512(sums[i], factors, 0) ^ __builtin_ia32_pclmulqdq512(sums[i], factors, 0x11) ^ next;
#else
      sums[i] =
          __builtin_ia32_vpclmulqdq_v8di(sums[i], factors, 0) ^ __builtin_ia32_vpclmulqdq_v8di(sums[i], factors, 0x11) ^ next;
#endif
    }
  std::byte last[at_once];
  std::memcpy(last, sums, at_once);
  return crc32c_by_instructions(crc32c_by_instructions(0, last, at_once), at, bytes);
}
#else
constexpr bool machine_multiplies_widely() { return false; }
inline std::uint32_t crc32c_by_products(std::uint32_t rest, std::byte const* at, std::size_t bytes) {
  return crc32c_by_instructions(rest, at, bytes);
}
#endif

// Returns the sum of these bytes behind others with the sum `before`; 0: of these alone. Finds every change of up to 32 bits in
// a row, and of three bits anywhere in 256 KiB.
inline std::uint32_t crc32c(std::uint32_t before, void const* bytes, std::size_t size) {
  auto const* const at = static_cast<std::byte const*>(bytes);
  if (size >= 1024 && machine_multiplies_widely()) return ~crc32c_by_products(~before, at, size);
  return ~(machine_has_crc32c() ? crc32c_by_instructions(~before, at, size) : crc32c_by_tables(~before, at, size));
}

}  // namespace parallax::detail
