// An Error as bytes, and back: what ranks over sockets tell each other when they fail. Endpoints and meetings send it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/error.hpp"

namespace parallax::detail {

// Bytes of one part of an Error that travel at most.
inline constexpr std::size_t longest_words = std::size_t{64} << 10;

// Calls add(from, size) with both numbers, then with each text, of which so much travels, behind its length.
template <class Add>
void add_error(Error const& error, std::size_t longest, Add const& add) {
  std::int32_t const numbers[] = {static_cast<std::int32_t>(error.code()), error.rank()};
  add(numbers, sizeof numbers);
  for (std::string const* text : {&error.operation(), &error.variable(), &error.detail(), &error.report()}) {
    auto const length = static_cast<std::uint32_t>(std::min(text->size(), longest));
    add(&length, sizeof length);
    add(text->data(), length);
  }
}
inline std::vector<std::byte> error_bytes(Error const& error) {
  std::vector<std::byte> bytes;
  add_error(error, longest_words, [&](void const* from, std::size_t size) {
    auto const* const first = static_cast<std::byte const*>(from);
    bytes.insert(bytes.end(), first, first + size);
  });
  return bytes;
}

// The bytes of an Error without memory, of the beginnings of its texts.
struct BriefErrorBytes {
  explicit BriefErrorBytes(Error const& error) {
    add_error(error, 100, [&](void const* from, std::size_t more) {
      if (more > 0) std::memcpy(bytes + size, from, more);
      size += more;
    });
  }
  std::byte bytes[8 + 4 * (4 + 100)];
  std::size_t size = 0;
};

// The bytes of an Error that travels, at most.
inline constexpr std::size_t most_error_bytes = 2 * sizeof(std::int32_t) + 4 * (sizeof(std::uint32_t) + longest_words);

// Puts a question mark in the place of each sign that a terminal may take for an order: control characters, and bytes of no
// UTF-8. Ends of lines stay where there may be `lines`.
inline void make_printable(std::span<char> text, bool lines = false) {
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

inline std::string printable(std::string text) {
  make_printable(text);
  return text;
}

// Returns the error that a peer has told: a missing part is empty, an unknown code is `aborted`, and a rank outside of a world
// of so many is none.
inline Error error_from(std::span<std::byte const> bytes, int ranks) {
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
