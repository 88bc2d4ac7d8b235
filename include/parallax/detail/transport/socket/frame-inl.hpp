// Bodies of parallax/detail/transport/socket/frame.hpp.
#pragma once

#include "parallax/detail/transport/socket/frame.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE char const* name_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::block: return "a block";
    case FrameKind::request: return "a request";
    case FrameKind::answer: return "an answer";
    case FrameKind::credit: return "a credit of requests";
    case FrameKind::question: return "a question after its journal";
    case FrameKind::status: return "a status";
    case FrameKind::directory: return "a directory of ranks";
    case FrameKind::abort: return "an abort";
    case FrameKind::goodbye: return "a goodbye";
    case FrameKind::place: return "a place in memory";
    case FrameKind::found: return "word of what it has found";
    case FrameKind::bell: return "a bell";
  }
  return "a frame of no kind";
}

PARALLAX_INLINE std::string in_digits(FrameSum sum) {
  std::string digits = "0x00000000";
  for (std::size_t i = digits.size(); sum != 0; sum >>= 4) digits[--i] = "0123456789abcdef"[sum & 15];
  return digits;
}

PARALLAX_INLINE std::byte* grow(std::vector<std::byte>& memory, std::size_t bytes, std::uint64_t total) {
  if (bytes > memory.capacity())
    memory.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(total, std::max(bytes, 2 * memory.size()))));
  memory.resize(bytes);
  return memory.data();
}

PARALLAX_INLINE std::vector<std::byte> error_bytes(Error const& error) {
  std::vector<std::byte> bytes;
  add_error(error, longest_words, [&](void const* from, std::size_t size) {
    auto const* const first = static_cast<std::byte const*>(from);
    bytes.insert(bytes.end(), first, first + size);
  });
  return bytes;
}

PARALLAX_INLINE void make_printable(std::span<char> text, bool lines) {
  auto const byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  for (std::size_t at = 0, length = 1; at < text.size(); at += length) {
    unsigned const first = byte(at);
    length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    bool shown = length > 1 || (length == 1 && ((first >= ' ' && first != 0x7f) || (lines && first == '\n')));
    for (std::size_t i = 1; i < length; ++i) shown = shown && (byte(at + i) & 0xc0) == 0x80;
    shown = shown && !(first == 0xc2 && byte(at + 1) < 0xa0);  // control characters of two bytes
    if (shown) continue;
    text[at] = '?';
    length = 1;
  }
}

PARALLAX_INLINE std::string printable(std::string text) {
  make_printable(text);
  return text;
}

PARALLAX_INLINE Error error_from(std::span<std::byte const> bytes, int ranks) {
  auto const take = [&](void* to, std::size_t size) {
    std::size_t const here = std::min(size, bytes.size());
    if (here > 0) std::memcpy(to, bytes.data(), here);
    bytes = bytes.subspan(here);
  };
  std::int32_t numbers[2] = {static_cast<std::int32_t>(Errc::aborted), -1};
  take(numbers, sizeof numbers);
  std::string texts[4];
  for (std::string& text : texts) {
    std::uint32_t length = 0;
    take(&length, sizeof length);
    text.resize(std::min<std::size_t>(length, bytes.size()));
    take(text.data(), text.size());
  }
  for (std::size_t i = 0; i < 4; ++i) make_printable(texts[i], i >= 2);
  auto code = static_cast<Errc>(numbers[0]);
  if (to_string(code) == to_string(Errc{})) code = Errc::aborted;
  return {code, numbers[1] < ranks ? std::max(numbers[1], -1) : -1, texts[0], texts[1], texts[2], texts[3]};
}

}  // namespace parallax::detail
