// The journals of ranks that wait, told by letters to those who ask where they are. An MpiEndpoint owns one, and
// MpiCommunicator answers for KeepsJournals and AnnouncesPauses by it.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transport/mpi/bodies.hpp"
#include "parallax/detail/transport/mpi/mailbox.hpp"

namespace parallax::detail {

// This rank's journal, and what others wrote of theirs. Who asks tells its own; a rank that asks is about to give up, so that
// the letters of a job are few.
class MpiJournals {
 public:
  MpiJournals() = default;
  MpiJournals(MpiJournals const&) = delete;
  MpiJournals& operator=(MpiJournals const&) = delete;
  ~MpiJournals();

  // This rank's own. While it is open, the process owes its peers a `finish`: see MpiDebts.
  Journal journal;

  // Local. Called once, before anything else, with the same tag on all ranks, and the communicator's deadline. Uses two tags.
  void join(MPI_Comm comm, int first_tag, std::chrono::nanoseconds deadline);
  // Whether letters were written or read: as MpiMailbox has it.
  bool used() const { return mailbox_.used(); }

  // Asks another rank once; what it has answered so far, or announced. `fresh`: whether that is its answer to this question.
  // Local. Times are those of this rank's clock. For this rank itself `fresh` is left as it is.
  std::optional<RankStatus> status_of(int other, bool& fresh);
  // Takes in what has come, and answers it.
  void answer();

  // A rank that announces may be away from MPI afterwards: so it waits a moment for the letters to go.
  void announce();
  // Takes in what has come, and answers it; then the longest of the pauses that are announced.
  std::chrono::nanoseconds longest_pause();

 private:
  // Whether that rank has last announced a pause.
  bool paused(std::size_t other) const { return heard_[other] && heard_[other]->pause > 0; }
  // Writes this rank's status. One request to a rank may be under way; a further one is left out.
  void tell(LetterLane lane, int other);
  // Takes in one letter of any rank; false where none has come. A letter counts as written when it is read here.
  bool hear(LetterLane lane);

  // A window of one letter, of the size of a RankStatus.
  MpiMailbox mailbox_;
  Letter letter_;
  int rank_ = 0;
  List<std::optional<RankStatus>> heard_;  // by rank
  List<char> asked_, answered_;            // by rank; answered_: since this rank asked
};

#if PARALLAX_MPI_BODIES
PARALLAX_MPI_INLINE MpiJournals::~MpiJournals() { MpiDebts::leave(journal); }

PARALLAX_MPI_INLINE void MpiJournals::join(MPI_Comm comm, int first_tag, std::chrono::nanoseconds deadline) {
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

PARALLAX_MPI_INLINE std::optional<RankStatus> MpiJournals::status_of(int other, bool& fresh) {
  if (other == rank_) return journal.status();
  auto const at = static_cast<std::size_t>(other);
  if (!std::exchange(asked_[at], 1)) {
    answered_[at] = 0;
    tell(LetterLane::requests, other);
  }
  fresh = answered_[at];
  return fresh || paused(at) ? heard_[at] : std::nullopt;
}

PARALLAX_MPI_INLINE void MpiJournals::answer() {
  while (hear(LetterLane::requests)) tell(LetterLane::answers, letter_.from);
  while (hear(LetterLane::answers)) {}
}

PARALLAX_MPI_INLINE void MpiJournals::announce() {
  if (mpi_job_is_ending) return;
  for (std::size_t other = 0; other < heard_.size(); ++other)
    if (static_cast<int>(other) != rank_) tell(LetterLane::answers, static_cast<int>(other));
  mailbox_.send_off(std::chrono::seconds{1});
}

PARALLAX_MPI_INLINE std::chrono::nanoseconds MpiJournals::longest_pause() {
  answer();
  std::int64_t longest = 0;
  for (std::size_t other = 0; other < heard_.size(); ++other)
    if (paused(other)) longest = std::max(longest, heard_[other]->pause);
  return std::chrono::nanoseconds{longest};
}

PARALLAX_MPI_INLINE void MpiJournals::tell(LetterLane lane, int other) {
  RankStatus const own = journal.status();
  std::span<std::byte const> const part = std::as_bytes(std::span{&own, 1});
  mailbox_.post(lane, other, {&part, 1});
}

PARALLAX_MPI_INLINE bool MpiJournals::hear(LetterLane lane) {
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
#endif

}  // namespace parallax::detail
