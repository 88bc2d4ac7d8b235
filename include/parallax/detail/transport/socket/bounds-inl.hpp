// Bodies of parallax/detail/transport/socket/bounds.hpp.
#pragma once

#include "parallax/detail/transport/socket/bounds.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::string objection(int from, FrameHeader const& message, int size, SocketMailbox const& mailbox) {
  std::uint64_t least = 0, most = 0;
  switch (message.kind) {
    case FrameKind::block: return {};
    case FrameKind::request:
    case FrameKind::answer: most = mailbox.bounds.largest; break;
    case FrameKind::abort: most = most_error_bytes; break;
    case FrameKind::directory:
      if (from == 0) least = most = static_cast<std::uint64_t>(size) * sizeof(SocketAddress);
      break;
    case FrameKind::question:
    case FrameKind::status: least = most = sizeof(RankStatus); break;
    case FrameKind::place: least = most = sizeof(Place); break;
    case FrameKind::credit:
    case FrameKind::found:
    case FrameKind::bell:
    case FrameKind::goodbye: break;
  }
  if (message.total < least || message.total > most)
    return joined({"announces ", name_of(message.kind), " of ", message.total, " bytes, where ", most,
                   least == most ? " are expected" : " are the most"});
  if (message.kind == FrameKind::request && !mailbox.expects_request(from))
    return joined({"sends more requests than the ", mailbox.bounds.window, " that may wait"});
  return {};
}

}  // namespace parallax::detail
