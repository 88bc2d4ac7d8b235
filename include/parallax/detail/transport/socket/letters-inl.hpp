// Bodies of parallax/detail/transport/socket/letters.hpp.
#pragma once

#include "parallax/detail/transport/socket/letters.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE bool SocketEndpoint::post_letter(LetterLane lane, int to, LetterParts parts) {
  birth_.check(options.rank, "post");
  if (failure_) refuse();
  check_letter(options.rank, options.size, to, parts, mailbox_.bounds.largest);
  if (to == options.rank) return mailbox_.post_own(lane, parts);
  bool const request = lane == LetterLane::requests;
  if (request && mailbox_.full(to)) check();
  if (request && mailbox_.full(to)) return false;
  std::vector<std::byte> bytes;
  write_letter(bytes, parts);
  if (request) mailbox_.posted(to);
  peers_.tell(to, request ? FrameKind::request : FrameKind::answer, 0, std::move(bytes), options.checksums);
  return true;
}

PARALLAX_INLINE bool SocketEndpoint::take_letter(LetterLane lane, int from, Letter& letter) {
  check_writer(options.rank, options.size, from);
  check();
  if (!mailbox_.take(lane, from, letter)) return false;
  if (lane == LetterLane::requests && letter.from != options.rank)
    peers_.tell(letter.from, FrameKind::credit, mailbox_.taken(letter.from), {});
  return true;
}

PARALLAX_INLINE std::optional<RankStatus> SocketEndpoint::status_of(int other, bool& fresh) {
  if (other == options.rank) return journals.journal.status();
  if (!failure_ && journals.asks(other)) tell_status(other, FrameKind::question);
  return journals.status_of(other, fresh);
}

PARALLAX_INLINE void SocketEndpoint::answer() {
  move_on();
  for (int rank = 0; rank < options.size; ++rank)
    if (journals.owes(rank) && !failure_) tell_status(rank, FrameKind::status);
}

PARALLAX_INLINE void SocketEndpoint::announce() {
  if (failure_) return;
  for (int rank = 0; rank < options.size; ++rank) tell_status(rank, FrameKind::status);
  peers_.linger(std::chrono::seconds{1}, [](Connection const& connection) { return connection.idle(); });
}

PARALLAX_INLINE void SocketEndpoint::tell_status(int to, FrameKind kind) {
  birth_.check(options.rank, "SocketCommunicator");
  RankStatus const own = journals.journal.status();
  auto const* const bytes = reinterpret_cast<std::byte const*>(&own);
  peers_.tell(to, kind, 0, {bytes, bytes + sizeof own});
}

}  // namespace parallax::detail
