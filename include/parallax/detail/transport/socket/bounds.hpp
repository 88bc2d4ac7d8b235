// The largest sizes of messages between ranks over sockets, by their kind: no rank waits for more bytes. An endpoint
// (detail/transport/socket/endpoint.hpp) asks at the beginning of a message.
#pragma once

#include <cstdint>
#include <string>

#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/transport/socket/descriptor.hpp"
#include "parallax/detail/transport/socket/frame.hpp"
#include "parallax/detail/transport/socket/mailbox.hpp"
#include "parallax/detail/transport/socket/words.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax::inline v0_2::detail {

// Returns the reason against a message as announced by a rank, in a world of so many; empty if it is well. A block is well
// here: its operation, when posted, says its number of bytes.
std::string objection(int from, FrameHeader const& message, int size, SocketMailbox const& mailbox);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/bounds-inl.hpp"
#endif
