// Bodies of parallax/detail/transport/mpi/journals.hpp.
#pragma once

#include "parallax/detail/transport/mpi/journals.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE MpiJournals::~MpiJournals() { MpiDebts::leave(journal); }

PARALLAX_INLINE void MpiJournals::join(MPI_Comm comm, int first_tag, std::chrono::nanoseconds deadline) {
  constexpr MailboxBounds bounds{.window = 1, .largest = sizeof(RankStatus)};
  mailbox_.join(comm, first_tag, bounds);
  int size = 0;
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size);
  heard_.resize(static_cast<std::size_t>(size));
  asked_.resize(static_cast<std::size_t>(size));
  answered_.resize(static_cast<std::size_t>(size));
  MpiDebts::enter(journal, rank_, deadline);
}

PARALLAX_INLINE std::optional<RankStatus> MpiJournals::status_of(int other, bool& fresh) {
  if (other == rank_) return journal.status();
  auto const at = static_cast<std::size_t>(other);
  if (!std::exchange(asked_[at], 1)) {
    answered_[at] = 0;
    tell(LetterLane::requests, other);
  }
  fresh = answered_[at];
  return fresh || paused(at) ? heard_[at] : std::nullopt;
}

PARALLAX_INLINE void MpiJournals::answer() {
  while (hear(LetterLane::requests)) tell(LetterLane::answers, letter_.from);
  while (hear(LetterLane::answers)) {}
}

PARALLAX_INLINE void MpiJournals::announce() {
  if (mpi_job_is_ending) return;
  for (std::size_t other = 0; other < heard_.size(); ++other)
    if (static_cast<int>(other) != rank_) tell(LetterLane::answers, static_cast<int>(other));
  mailbox_.send_off(std::chrono::seconds{1});
}

PARALLAX_INLINE std::chrono::nanoseconds MpiJournals::longest_pause() {
  answer();
  std::int64_t longest = 0;
  for (std::size_t other = 0; other < heard_.size(); ++other)
    if (paused(other)) longest = std::max(longest, heard_[other]->pause);
  return std::chrono::nanoseconds{longest};
}

PARALLAX_INLINE void MpiJournals::tell(LetterLane lane, int other) {
  RankStatus const own = journal.status();
  std::span<std::byte const> const part = std::as_bytes(std::span{&own, 1});
  mailbox_.post(lane, other, {&part, 1});
}

PARALLAX_INLINE bool MpiJournals::hear(LetterLane lane) {
  if (!mailbox_.take(lane, -1, letter_)) return false;
  RankStatus told;
  if (letter_.bytes.size() == sizeof told) std::memcpy(&told, letter_.bytes.data(), sizeof told);
  auto const late = static_cast<std::int64_t>(MPI_Wtime() * 1e9) - told.told;  // as if its clock were ours
  for (JournalEntry& entry : told.last) entry.began += late, entry.changed += late;
  told.told += late;
  heard_[static_cast<std::size_t>(letter_.from)] = told;
  answered_[static_cast<std::size_t>(letter_.from)] = 1;
  return true;
}

}  // namespace parallax::detail
