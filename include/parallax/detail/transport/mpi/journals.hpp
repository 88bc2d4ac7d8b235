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
#include "parallax/detail/transport/mpi/mailbox.hpp"

namespace parallax::inline v0_2::detail {

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

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/journals-inl.hpp"
#endif
