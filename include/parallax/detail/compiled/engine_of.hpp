// Contents of the compiled libraries for an engine over one type of communicator, whatever its variables. engine.hpp and
// cuda.hpp include it.
#pragma once

#include "parallax/session/session.hpp"

// Instantiates the engine in the namespace parallax, or promises it: `once` is `template` or `extern template`.
#define PARALLAX_ENGINE_OF(once, Ranks)                                                                                \
  once class Topology<Ranks>;                                                                                          \
  once class Lane<Ranks>;                                                                                              \
  once class Mail<Ranks, HostSpace>;                                                                                   \
  once class Mails<Ranks>;                                                                                             \
  once class Agreement<Ranks>;                                                                                         \
  once class JournalReport<Ranks>;                                                                                     \
  once class Buckets<Ranks>;                                                                                           \
  once class detail::DenseExchange<Ranks>;                                                                             \
  once class detail::Flight<Ranks>;                                                                                    \
  once class detail::Flights<Ranks>;                                                                                   \
  once class detail::Ahead<Ranks>;                                                                                     \
  once class detail::Waiting<Ranks>;                                                                                   \
  once class detail::Rounds<Ranks>;                                                                                    \
  once class detail::SessionCore<Ranks>;                                                                               \
  once class detail::Completing<Ranks>;                                                                                \
  once bool carry(Mails<Ranks>&, std::span<Traveller<Ranks>* const>);                                                  \
  once Verdict explain_difference(Lane<Ranks>&, Testimony const&, FunctionRef<void()>);                                \
  once Error timeout_error(Ranks const&, int, std::string_view, std::string_view, std::string_view, std::string_view); \
  once bool detail::take_step(detail::SessionCore<Ranks>&, detail::Flight<Ranks>&, FunctionRef<void()>);               \
  once void detail::carry_out(detail::SessionCore<Ranks>&, detail::FetchBase<Ranks>&);                                 \
  once Completion detail::finish(detail::SessionCore<Ranks>&);                                                         \
  once void detail::poll(detail::SessionCore<Ranks>&);
