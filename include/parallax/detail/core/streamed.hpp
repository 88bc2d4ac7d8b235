// Copies past the caches: what is written where more has to be written than they hold does not fetch its lines first. Row loops
// of the host and lent memory's copies include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "parallax/detail/core/algorithm.hpp"

namespace parallax::inline v0_2::detail {

// What has so many bytes fits no cache: it is waited for, and what is written leaves the caches before it is read.
inline constexpr std::size_t many_bytes = std::size_t{8} << 20;
inline constexpr std::size_t streamed_word = 16;  // bytes

#if defined(__SSE2__) && !defined(__CUDACC__)
// A word that is stored past the caches, over memory of any type.
using StreamedWord = long long __attribute__((vector_size(streamed_word), may_alias));

// Whether rows that are written to `out` are many enough to go past the caches, and begin and end at words.
inline bool can_stream(void const* out, std::size_t row_bytes, std::size_t rows) {
  return rows * row_bytes >= many_bytes && row_bytes % streamed_word == 0 &&
         reinterpret_cast<std::uintptr_t>(out) % streamed_word == 0;
}
// One word to `to`, which a word may begin at, without its line being fetched. Visible to others after `end_stream`.
inline void store_past_caches(StreamedWord* to, StreamedWord word) {
#if defined(__clang__)
  __builtin_nontemporal_store(word, to);
#else
  __builtin_ia32_movntdq(to, word);
#endif
}

// Copies whole words past the caches: `bytes` is a multiple of a word, and `to` where a word may begin. `in` may lie anywhere.
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
// Called after the last word, before another thread may be told of them.
inline void end_stream() { __builtin_ia32_sfence(); }
#else
// Where no such store is known: never, an ordinary copy, and nothing to wait for.
constexpr bool can_stream(void const*, std::size_t, std::size_t) { return false; }
inline void stream_words(void* out, void const* in, std::size_t bytes) { std::memcpy(out, in, bytes); }
inline void end_stream() {}
#endif

// Copies any number of bytes from and to any place past the caches, but for the ends that fill no word. Others may be told of
// them once it has returned.
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
