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

// Both numbers, then each text behind its length.
inline std::vector<std::byte> error_bytes(Error const& error) {
  std::vector<std::byte> bytes;
  auto const add = [&](void const* from, std::size_t size) {
    auto const* const first = static_cast<std::byte const*>(from);
    bytes.insert(bytes.end(), first, first + size);
  };
  std::int32_t const numbers[] = {static_cast<std::int32_t>(error.code()), error.rank()};
  add(numbers, sizeof numbers);
  for (std::string const* text : {&error.operation(), &error.variable(), &error.detail(), &error.report()}) {
    auto const length = static_cast<std::uint32_t>(std::min(text->size(), longest_words));
    add(&length, sizeof length);
    add(text->data(), length);
  }
  return bytes;
}

// What is missing of it is empty.
inline Error error_from(std::span<std::byte const> bytes) {
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
  return {static_cast<Errc>(numbers[0]), numbers[1], texts[0], texts[1], texts[2], texts[3]};
}

}  // namespace parallax::detail
