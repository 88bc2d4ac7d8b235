// An Error as bytes, and back: the words of a failing rank to the others over sockets. Endpoints and meetings send it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/error.hpp"

namespace parallax::inline v0_2::detail {

// Most bytes of one part of an Error on its way.
inline constexpr std::size_t longest_words = std::size_t{64} << 10;

// Calls add(from, size) with both numbers, then with each text, at most so much of it, behind its length.
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
std::vector<std::byte> error_bytes(Error const& error);

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

// Most bytes of an Error on its way.
inline constexpr std::size_t most_error_bytes = 2 * sizeof(std::int32_t) + 4 * (sizeof(std::uint32_t) + longest_words);

// Puts a question mark in the place of each sign that a terminal may take for an order: control characters, and bytes of no
// UTF-8. Ends of lines stay if there may be `lines`.
void make_printable(std::span<char> text, bool lines = false);

std::string printable(std::string text);

// Returns the error told by a peer, for any bytes: a missing text is empty, a missing or unknown code is `aborted`, and a rank
// missing or not in [0, ranks) is -1. Texts are made printable.
Error error_from(std::span<std::byte const> bytes, int ranks);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/words-inl.hpp"
#endif
