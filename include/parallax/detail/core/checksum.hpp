// A checksum of memory at the speed of memory, for ranks to compare values that should be equal. The states of variables take
// it of a replica before its first update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "parallax/core/fields.hpp"

namespace parallax::inline v0_2::detail {

// Returns a checksum of all bits: memory that differs in one word differs in its checksum, and other memory almost surely does.
// Takes four words at a time, each in a chain of its own: no multiplication waits for the one before. Linear in `bytes`.
inline std::uint64_t checksum(void const* data, std::size_t bytes) {
  constexpr std::size_t chains = 4, at_once = chains * sizeof(std::uint64_t);
  Fingerprint chain[chains], all;
  auto const* at = static_cast<std::byte const*>(data);
  auto const fold = [&](std::size_t count) {
    std::uint64_t words[chains] = {};
    std::memcpy(words, at, count);
    for (std::size_t i = 0; i < chains; ++i) chain[i].fold(words[i]);
  };
  all.add(bytes);
  for (; bytes >= at_once; at += at_once, bytes -= at_once) fold(at_once);
  if (bytes > 0) fold(bytes);
  for (Fingerprint const& one : chain) all.add(one.value());
  return all.value();
}

}  // namespace parallax::detail
