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

namespace parallax::inline v0_2::detail {

// Returns why a message cannot be as a rank announces it, in a world of so many; nothing where it is well. A block is well
// here: its operation says how many bytes it has, when that is posted.
std::string objection(int from, FrameHeader const& message, int size, SocketMailbox const& mailbox);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/bounds-inl.hpp"
#endif
