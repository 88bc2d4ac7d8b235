// The report of a wait that took too long: made by a session once its deadline has passed. It names the rank to blame, waiting,
// late and silent ranks, and each rank's last operations.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/text.hpp"
#include "parallax/detail/memory/buffer.hpp"

namespace parallax::inline v0_2 {

// The last word of one rank in a wait that took too long.
struct LastWord {
  // Before all times: of a silent rank.
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();
  // Behind all times.
  static constexpr std::int64_t just_now = std::numeric_limits<std::int64_t>::max();

  std::int64_t heard = never;  // ns, of one clock for all ranks: its last act or word; just_now: it answers
  int waiting_for = -1;        // the rank that it waited for then, or -1
};

// Pure. Returns the rank for rank `self` to blame, after too long a wait for `missing` (-1: an unknown rank); `words` by rank.
// The way leads from `missing` to the rank it waited for at its last word, from there to the next rank waited for, and so on.
// It ends at a rank that waits for nobody or for `self`, or after as many links as there are ranks. Blamed is the rank on the
// way with the oldest last word; of several with the same time, the last.
//
// Reason: a rank that waits says so again and again, and a rank that is stuck says nothing any more. So the way is true as far
// as the stuck rank, and beyond it, or round in a circle, it goes only by the stuck rank's last word, which need not be true
// any more. This is exact if one rank is stuck, and every waiting rank has since then named the rank it waits for now. `self`
// is awake: no word of a peer, older than its own wait, can make it the one.
constexpr int rank_to_blame(Slice<LastWord const> words, int self, int missing) {
  int blamed = missing, rank = missing;
  for (std::size_t links = 0; rank >= 0 && rank != self && links < words.size(); ++links) {
    LastWord const& word = words[static_cast<std::size_t>(rank)];
    if (word.heard <= words[static_cast<std::size_t>(blamed)].heard) blamed = rank;
    rank = word.waiting_for;
  }
  return blamed;
}

// The ranks' words on themselves, and conclusions from them.
class RankTales {
 public:
  // Returns the rank to blame if this rank waits for `missing`; -1 if that is -1, an unknown rank.
  int to_blame(int missing) const;
  // Returns every rank's state, a line each, each with its last operations.
  std::string text() const;

  // Returns a line on one rank, silent without a status. `answers`: its word is of just now; `own`: the number of the reporting
  // rank's operation; `now`: ns, by the clock of the times in the status.
  static std::string status_line(int rank, std::optional<RankStatus> const& status, bool answers, std::uint64_t own,
                                 std::int64_t now);
  // Returns the operations of one rank before its latest, newest first.
  static std::string history_lines(RankStatus const& status);

 protected:
  // Begins without knowledge of any rank.
  RankTales(int self, int size) : self_{static_cast<std::size_t>(self)}, tales_(static_cast<std::size_t>(size)) {}

  // Words of one rank.
  struct Tale {
    // The last word heard of it; none if it has never been heard.
    std::optional<RankStatus> known;
    bool answers = false;  // a word of just now
  };
  // The reporting rank.
  std::size_t self_;
  List<Tale> tales_;              // by rank
  std::int64_t asked_until_ = 0;  // ns of this rank's clock
};

// The tales of all ranks of a communicator that keeps journals, asked for by one of them, perhaps not the only one.
template <KeepsJournals C>
class JournalReport : public RankTales {
 public:
  // Local. Asks all ranks; waits a tenth of the deadline, at most 200 ms, for ranks that must be asked. If a rank's journal
  // lies open, a word of as much time before counts as an answer.
  PARALLAX_COLD explicit JournalReport(C& comm);
};

template <KeepsJournals C>
JournalReport<C>::JournalReport(C& comm) : RankTales{comm.rank(), comm.size()} {
  auto const begin = now(comm);
  auto const grace =
      std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds{comm.deadline()} / 10, std::chrono::milliseconds{200});
  std::size_t missing = 0;
  do {  // at least one look, however long this rank was kept from it
    detail::rest();
    missing = 0;
    comm.answer();
    for (int rank = 0; rank < comm.size(); ++rank) {
      Tale& tale = tales_[static_cast<std::size_t>(rank)];
      if (tale.answers) continue;
      bool fresh = rank == comm.rank();
      if (auto status = comm.status_of(rank, fresh)) {
        tale.known = status;
        fresh = fresh || (status->waiting && status->told >= (begin - grace).count());
      }
      tale.answers = fresh;
      missing += !fresh;
    }
  } while (missing > 0 && now(comm) - begin <= grace);
  asked_until_ = now(comm).count();
}

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transfer/agreement/journal_report-inl.hpp"
#endif
