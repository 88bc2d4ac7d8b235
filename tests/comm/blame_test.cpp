// Whom a rank blames that has waited too long: the one that is stuck, whatever it said last. On a controlled clock, over random
// schedules that know who is stuck.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/detail/transfer/agreement/journal_report.hpp"

namespace px = parallax;

namespace {

using Word = px::LastWord;

// Ranks that compute and wait for each other, round after round, until one of them is stuck; by a clock that goes from event to
// event. A rank that waits gets a turn now and then, in which it looks whether its wait is over, and says for whom it waits.
class Schedule {
 public:
  struct Pace {
    char const* name;
    std::int64_t deadline, compute, turn;  // ns; the latter two: at most
    bool open;                             // journals lie open, or are asked for and told in turns
  };

  Schedule(std::uint64_t seed, Pace const& pace) : random_{seed}, pace_{pace}, ranks_(2 + random_() % 7) {
    stuck_ = static_cast<int>(random_() % ranks_.size());
    stuck_at_ = below(4 * pace.compute);
    for (auto& round : awaited_)
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        std::uint64_t const all = (std::uint64_t{1} << ranks_.size()) - 1;
        round[rank] = all & ~(std::uint64_t{1} << rank);
        for (std::uint64_t times = random_() % 3; times > 0; --times) round[rank] &= random_();
      }
    for (Rank& rank : ranks_) {
      rank.journal.enter("step", 1, 0, 0);
      rank.wakes = below(pace.compute);
    }
  }

  int stuck() const { return stuck_; }
  int ranks() const { return static_cast<int>(ranks_.size()); }
  std::int64_t deadline() const { return pace_.deadline; }
  px::Journal& journal(int rank) { return of(rank).journal; }

  // Until a rank has waited for longer than the deadline, which is returned, or nothing happens any more (-1).
  int run() {
    while (true) {
      int const rank = next();
      if (rank < 0) return -1;
      time_ = of(rank).wakes;
      turn(rank);
      if (of(rank).gives_up) return rank;
    }
  }
  // A look at the clock takes as long as somebody else's turn.
  std::int64_t look() {
    std::int64_t const until = time_ + 1 + below(pace_.turn / 8);
    for (int rank = next(); rank >= 0 && of(rank).wakes <= until; rank = next()) {
      time_ = of(rank).wakes;
      turn(rank);
    }
    return time_ = until;
  }
  // The rank that this one waits for, or -1.
  int waiting_for(int rank) {
    Rank const& mine = of(rank);
    for (int k = 1; k < ranks(); ++k) {
      int const other = (rank + k) % ranks();
      bool const awaited = awaited_[mine.round][static_cast<std::size_t>(rank)] >> other & 1;
      if (mine.waits && awaited && of(other).rounds_begun <= mine.round) return other;
    }
    return -1;
  }

  std::optional<px::RankStatus> status_of(int self, int rank, bool& fresh) {
    if (rank == self || pace_.open) return of(rank).journal.status();
    of(rank).asked = true;
    fresh = of(rank).told || of(rank).gives_up;  // who gives up asks, and answers meanwhile
    return fresh ? std::optional{of(rank).journal.status()} : std::nullopt;
  }

 private:
  static constexpr std::size_t rounds = 24;
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  struct Rank {
    px::Journal journal;
    std::size_t round = 0, rounds_begun = 0;
    std::int64_t wakes = 0, began = 0;
    std::uint64_t operation = 1;
    bool waits = false, gives_up = false, asked = false, told = false;
  };

  Rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  // Whose turn it is. A rank that is stuck, that gives up or that has done all has none.
  int next() {
    int first = -1;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (of(rank).wakes == never || (rank == stuck_ && of(rank).wakes >= stuck_at_)) continue;
      if (first < 0 || of(rank).wakes < of(first).wakes) first = rank;
    }
    return first;
  }

  void turn(int rank) {
    Rank& mine = of(rank);
    if (!mine.waits) {
      mine.waits = true;
      mine.rounds_begun = mine.round + 1;
      mine.began = time_;
    } else if (waiting_for(rank) < 0) {
      return go_on(mine);
    } else {
      mine.journal.wait(waiting_for(rank), time_);
      mine.told = mine.asked;
      if (time_ - mine.began > pace_.deadline) {
        mine.gives_up = true;
        mine.wakes = never;
        return;
      }
    }
    mine.wakes = time_ + 1 + below(pace_.turn);
  }
  // Not every rank says at once that its wait is over: the word before may stand for as long as it computes.
  void go_on(Rank& mine) {
    mine.waits = false;
    mine.wakes = time_ + 1 + below(pace_.compute);
    switch (random_() % 3) {
      case 0: break;
      case 1: mine.journal.advance("exchanging", 0, time_); break;
      default:
        mine.journal.leave(0, time_);
        mine.journal.enter("step", ++mine.operation, 0, time_);
    }
    if (++mine.round == rounds) mine.wakes = never;
  }

  std::mt19937_64 random_;
  Pace pace_;
  std::vector<Rank> ranks_;
  std::array<std::array<std::uint64_t, 8>, rounds> awaited_{};  // by round and rank: of whom, as bits
  int stuck_ = 0;
  std::int64_t time_ = 0, stuck_at_ = 0;
};

// One rank's end of a schedule: what a report needs.
struct End {
  struct Request {
    bool test() { return false; }
    int waiting_for() const { return -1; }
  };
  Schedule* schedule;
  int self;

  int rank() const { return self; }
  int size() const { return schedule->ranks(); }
  std::chrono::nanoseconds deadline() const { return std::chrono::nanoseconds{schedule->deadline()}; }
  std::chrono::nanoseconds now() const { return std::chrono::nanoseconds{schedule->look()}; }
  Request ialltoallv(int, px::Transfer const&) { return {}; }
  void abort(px::Error const&) {}
  px::Journal& journal() { return schedule->journal(self); }
  std::optional<px::RankStatus> status_of(int rank, bool& fresh) { return schedule->status_of(self, rank, fresh); }
  void answer() {}
};
static_assert(px::KeepsJournals<End> && px::OwnClock<End>);

constexpr std::int64_t us = 1'000, ms = 1'000'000, s = 1'000'000'000;

}  // namespace

TEST_CASE("the rank that is stuck is blamed, whatever it said last", "[comm][blame]") {
  // Under the last one nobody answers in the time of a report, a tenth of the deadline and at most 200 ms.
  auto const pace = GENERATE(Schedule::Pace{"journals lie open", 30 * ms, 500 * us, 200 * us, true},
                             Schedule::Pace{"ranks are asked", 30 * ms, 500 * us, 200 * us, false},
                             Schedule::Pace{"a crowded machine", 120 * s, 1 * s, 2 * s, true});
  int const schedules = parallax_test::sized(300, 3000, 3000);
  int named = 0, misleading = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(schedules); ++seed) {
    Schedule schedule{seed, pace};
    int const rank = schedule.run();
    if (rank < 0) continue;  // nobody needed the rank that is stuck
    int const missing = schedule.waiting_for(rank);
    End end{&schedule, rank};
    px::JournalReport<End> const report{end};
    INFO(pace.name << ", seed " << seed << ": rank " << rank << " of " << schedule.ranks() << " waits for " << missing
                   << report.text());
    REQUIRE(report.to_blame(missing) == schedule.stuck());
    ++named;
    int at = missing;  // where the last words alone lead to
    for (int links = 0; links < schedule.ranks() && at >= 0 && at != rank; ++links) {
      px::RankStatus const status = schedule.journal(at).status();
      if (!status.waiting || status.waiting_for < 0) break;
      at = status.waiting_for;
    }
    misleading += at != schedule.stuck();
  }
  CAPTURE(pace.name, named, misleading);
  CHECK(named > parallax_test::sized(100, 2000, 2000));
  CHECK(misleading > parallax_test::sized(5, 200, 200));  // else the schedules prove nothing
}

TEST_CASE("of a circle of waits the rank is blamed that nobody has heard of since", "[comm][blame]") {
  std::vector<Word> words{{10, 1}, {40, 0}, {50, 0}};  // 1 and 2 wait for 0, whose last word is that it waits for 1
  CHECK(px::rank_to_blame(words, 2, 0) == 0);
  CHECK(px::rank_to_blame(words, 1, 0) == 0);
  words[0] = {10, -1};
  CHECK(px::rank_to_blame(words, 2, 1) == 0);
  words[0] = {Word::never, -1};  // it has said nothing at all
  CHECK(px::rank_to_blame(words, 2, 1) == 0);
}

TEST_CASE("a last word leads to nobody who has been heard of since", "[comm][blame]") {
  std::vector<Word> const words{{10, 3}, {40, 0}, {45, 1}, {44, -1}};  // 0 is stuck; 3 went on without it
  CHECK(px::rank_to_blame(words, 2, 1) == 0);
}

TEST_CASE("where all ranks answer, the one is blamed that waits for none of them", "[comm][blame]") {
  std::vector<Word> const words{{Word::just_now, -1}, {Word::just_now, 0}, {Word::just_now, 1}};
  CHECK(px::rank_to_blame(words, 2, 1) == 0);
}

TEST_CASE("a rank blames neither itself on a peer's word, nor anybody where nobody is missing", "[comm][blame]") {
  std::vector<Word> const words{{10, 2}, {20, -1}, {Word::just_now, 0}};
  CHECK(px::rank_to_blame(words, 2, 0) == 0);
  CHECK(px::rank_to_blame(words, 2, -1) == -1);
  CHECK(px::rank_to_blame(words, 0, 0) == 0);  // its own request names it
}
