// The largest sizes of messages between ranks over sockets, by their kind: no rank waits for more bytes than that. An endpoint
// (detail/transport/socket/endpoint.hpp) asks when a message begins.
#pragma once

#include <cstdint>
#include <string>

#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/transport/socket/descriptor.hpp"
#include "parallax/detail/transport/socket/frame.hpp"
#include "parallax/detail/transport/socket/mailbox.hpp"
#include "parallax/detail/transport/socket/words.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax::detail {

// Returns why a message cannot be as a rank announces it, in a world of so many; nothing where it is well. A block is well
// here: its operation says how many bytes it has, when that is posted.
inline std::string objection(int from, FrameHeader const& message, int size, SocketMailbox const& mailbox) {
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
