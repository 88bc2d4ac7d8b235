// The letters of ranks over sockets, and their questions to each other about what they are doing: of an endpoint, all that
// needs no operation. comm/socket.hpp includes it.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "parallax/detail/comm/letter_queue.hpp"
#include "parallax/detail/transport/socket/endpoint.hpp"

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/letters-inl.hpp"
#endif
