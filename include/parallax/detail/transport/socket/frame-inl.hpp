// Bodies of parallax/detail/transport/socket/frame.hpp.
#pragma once

#include "parallax/detail/transport/socket/frame.hpp"

#include "parallax/detail/core/config.hpp"

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

}  // namespace parallax::detail
