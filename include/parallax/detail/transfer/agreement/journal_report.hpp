// The report of a wait that took too long: made by a session once its deadline has passed. It says who is to blame, who waits,
// is behind or says nothing, and what each rank did last.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/slice.hpp"
#include "parallax/detail/core/text.hpp"
#include "parallax/detail/memory/buffer.hpp"

namespace parallax::inline v0_2 {

// What is known of one rank where a wait took too long.
struct LastWord {
  // Before all times: of a rank that has said nothing.
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();
  // Behind all times.
  static constexpr std::int64_t just_now = std::numeric_limits<std::int64_t>::max();

  std::int64_t heard = never;  // ns, of one clock for all ranks: when it did or said anything; just_now: it answers
  int waiting_for = -1;        // the rank that it waited for then, or -1
};

// Pure. Whom rank `self` is to blame, which has waited too long for `missing` (-1: nobody knows whom); `words` by rank.
// The way leads from `missing` to the rank that it waited for when it was last heard of, from there to the rank that this one
// waited for, and so on. It ends where a rank waits for nobody or for `self`, or after as many links as there are ranks. Blamed
// is the rank on the way of which nobody has heard for longest; of several that were heard of at the same time, the last.
//
// Why: a rank that waits says so again and again, and a rank that is stuck says nothing any more. So the way is true as far as
// the stuck rank, and beyond it, or round in a circle, it goes only by the stuck rank's last word, which need not be true any
// more. This is exact where one rank is stuck, and every rank that waits has said since then for whom it waits now. `self` is
// awake: no word of a peer, which is older than its own wait, can make it the one.
constexpr int rank_to_blame(Slice<LastWord const> words, int self, int missing) {
  int blamed = missing, rank = missing;
  for (std::size_t links = 0; rank >= 0 && rank != self && links < words.size(); ++links) {
    LastWord const& word = words[static_cast<std::size_t>(rank)];
    if (word.heard <= words[static_cast<std::size_t>(blamed)].heard) blamed = rank;
    rank = word.waiting_for;
  }
  return blamed;
}

// What ranks have told of themselves, and what follows from it.
class RankTales {
 public:
  // Who is to blame where this rank waits for `missing`.
  int to_blame(int missing) const;
  // What every rank is doing, a line each, each with its last operations.
  std::string text() const;

  // A line on one rank. `own`: the number of the operation of the rank that reports; `now` and the status are of one clock, or
  // of clocks that `now` was taken from alike.
  static std::string status_line(int rank, std::optional<RankStatus> const& status, bool answers, std::uint64_t own,
                                 std::int64_t now);
  // The operations of one rank before its latest, newest first.
  static std::string history_lines(RankStatus const& status);

 protected:
  // Nothing is known of any rank yet.
  RankTales(int self, int size) : self_{static_cast<std::size_t>(self)}, tales_(static_cast<std::size_t>(size)) {}

  // What one rank has told.
  struct Tale {
    // The last that was heard of it; none where it has never been heard.
    std::optional<RankStatus> known;
    bool answers = false;  // it told so just now
  };
  // The rank that reports.
  std::size_t self_;
  List<Tale> tales_;              // by rank
  std::int64_t asked_until_ = 0;  // ns of this rank's clock
};

// The tales of all ranks of a communicator that keeps journals, asked for by one of them, which need not be the only one.
template <KeepsJournals C>
class JournalReport : public RankTales {
 public:
  // Local. Asks all ranks; waits a tenth of the deadline, at most 200 ms, for those that must be asked. Where a rank's journal
  // lies open, what it said within as much time before counts as an answer.
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
