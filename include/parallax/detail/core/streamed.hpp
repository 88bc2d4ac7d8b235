// Copies past the caches: a write of more bytes than they hold does not fetch its lines first. Included by row loops of the
// host and lent memory's copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "parallax/detail/core/algorithm.hpp"

namespace parallax::inline v0_2::detail {

// Number of bytes that fits no cache: readers wait for the bytes, and written ones leave the caches before they are read.
inline constexpr std::size_t many_bytes = std::size_t{8} << 20;
inline constexpr std::size_t streamed_word = 16;  // bytes

#if defined(__SSE2__) && !defined(__CUDACC__)
// A word stored past the caches, over memory of any type.
using StreamedWord = long long __attribute__((vector_size(streamed_word), may_alias));

// Returns true if the rows written to `out` are many enough to go past the caches, and begin and end at words.
inline bool can_stream(void const* out, std::size_t row_bytes, std::size_t rows) {
  return rows * row_bytes >= many_bytes && row_bytes % streamed_word == 0 &&
         reinterpret_cast<std::uintptr_t>(out) % streamed_word == 0;
}
// Stores one word to `to`, at a multiple of a word, without fetching its line. Visible to others after `end_stream`.
inline void store_past_caches(StreamedWord* to, StreamedWord word) {
#if defined(__clang__)
  __builtin_nontemporal_store(word, to);
#else
  __builtin_ia32_movntdq(to, word);
#endif
}

// Copies whole words past the caches: `bytes` and the address `out` are multiples of a word. `in` may lie anywhere.
inline void stream_words(void* out, void const* in, std::size_t bytes) {
  auto* to = static_cast<StreamedWord*>(out);
  auto const* from = static_cast<std::byte const*>(in);
  auto const next = [&from] {
    StreamedWord word;
    std::memcpy(&word, from, sizeof word);
    from += sizeof word;
    return word;
  };
  std::size_t words = bytes / streamed_word;
  for (; words >= 4; words -= 4, to += 4) {
    StreamedWord const a = next(), b = next(), c = next(), d = next();
    store_past_caches(to, a), store_past_caches(to + 1, b), store_past_caches(to + 2, c), store_past_caches(to + 3, d);
  }
  for (; words > 0; --words) store_past_caches(to++, next());
}
// Ends the stores. Called after the last word, before another thread may be told of them.
inline void end_stream() { __builtin_ia32_sfence(); }
#else
// Without such a store: never, an ordinary copy, and nothing to wait for.
constexpr bool can_stream(void const*, std::size_t, std::size_t) { return false; }
inline void stream_words(void* out, void const* in, std::size_t bytes) { std::memcpy(out, in, bytes); }
inline void end_stream() {}
#endif

// Copies bytes from and to any place, without overlap, past the caches, except ends smaller than a word. Others may be told of
// them on its return.
inline void stream_bytes(void* out, void const* in, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(out);
  auto const* from = static_cast<std::byte const*>(in);
  auto const copy = [&](std::size_t n) { std::memcpy(to, from, n), to += n, from += n, bytes -= n; };
  copy(std::min<std::size_t>(bytes, -reinterpret_cast<std::uintptr_t>(to) % streamed_word));
  std::size_t const words = bytes / streamed_word * streamed_word;
  stream_words(to, from, words);
  to += words, from += words, bytes -= words;
  copy(bytes);
  end_stream();
}

}  // namespace parallax::detail
