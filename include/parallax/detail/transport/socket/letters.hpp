// The letters of ranks over sockets, and their questions to each other about their activity: the parts of an endpoint without
// operations. comm/socket.hpp includes it.
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
