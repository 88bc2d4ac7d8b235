// The journals of waiting ranks, told by letters to all who ask. An MpiEndpoint owns one, and MpiCommunicator answers for
// KeepsJournals and AnnouncesPauses by it.
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

// This rank's journal, and the others' as told by them. A rank tells its own as it asks; only a rank about to give up asks, so
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
  // Returns true if letters were written or read, like MpiMailbox.
  bool used() const { return mailbox_.used(); }

  // Asks another rank once; returns its answer so far, or its announcement. `fresh`: set if this is its answer to the question.
  // Local. Times are of this rank's clock. For this rank itself `fresh` is left alone.
  std::optional<RankStatus> status_of(int other, bool& fresh);
  // Takes in all that has come, and answers.
  void answer();

  // Announces a pause, and waits a moment for the letters to go: the rank may be away from MPI afterwards.
  void announce();
  // Takes in all that has come, and answers; returns the longest of the announced pauses.
  std::chrono::nanoseconds longest_pause();

 private:
  // Returns true if that rank has last announced a pause.
  bool paused(std::size_t other) const { return heard_[other] && heard_[other]->pause > 0; }
  // Writes this rank's status. One request to a rank may be under way; a further one is left out.
  void tell(LetterLane lane, int other);
  // Takes in one letter of any rank; false if none has come. A letter counts as written when read here.
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
