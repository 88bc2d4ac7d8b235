// The report of a wait that took too long: which ranks wait, which are behind, which say nothing, and what each did last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/core/algorithm.hpp"

namespace parallax {

template <KeepsJournals C>
class JournalReport {
 public:
  // Local. Asks all ranks; waits a tenth of the deadline, at most 200 ms, for those that must be asked.
  explicit JournalReport(C& comm)
      : comm_{&comm}, known_(static_cast<std::size_t>(comm.size())), answers_(static_cast<std::size_t>(comm.size())) {
    auto const begin = now(comm);
    auto const grace =
        std::min<std::chrono::nanoseconds>(std::chrono::nanoseconds{comm.deadline()} / 10, std::chrono::milliseconds{200});
    for (std::size_t missing = 1; missing > 0 && now(comm) - begin <= grace; detail::yield()) {
      missing = 0;
      comm.answer();
      for (std::size_t rank = 0; rank < known_.size(); ++rank) {
        if (answers_[rank]) continue;
        bool fresh = static_cast<int>(rank) == comm.rank();
        if (auto status = comm.status_of(static_cast<int>(rank), fresh)) known_[rank] = status;
        answers_[rank] = fresh;
        missing += !fresh;
      }
    }
  }

  // What every rank is doing, a line each, each with its last operations.
  std::string text() const {
    auto const& own = known_[static_cast<std::size_t>(comm_->rank())];
    std::uint64_t const number = own && own->latest() ? own->latest()->number : 0;
    std::string report;
    for (std::size_t rank = 0; rank < known_.size(); ++rank) {
      report += '\n' + status_line(static_cast<int>(rank), known_[rank], answers_[rank], number, now(*comm_).count());
      if (known_[rank]) report += history_lines(*known_[rank]);
    }
    return report;
  }

  // Who is to blame where this rank waits for `rank`: the first that does not itself wait for another, and never this rank on
  // the word of a peer.
  int end_of_chain(int rank) const {
    for (std::size_t links = 0; rank >= 0 && links < known_.size(); ++links) {
      auto const at = static_cast<std::size_t>(rank);
      if (!answers_[at] || known_[at]->waiting_for < 0) break;
      if (rank == comm_->rank() || known_[at]->waiting_for == comm_->rank()) break;  // what it said is older than our wait
      rank = known_[at]->waiting_for;
    }
    return rank;
  }

  // A line on one rank. `own`: the number of the operation of the rank that reports; `now` and the status are of one clock, or
  // of clocks that `now` was taken from alike.
  static std::string status_line(int rank, std::optional<Status> const& status, bool answers, std::uint64_t own,
                                 std::int64_t now) {
    std::string line = "  rank " + std::to_string(rank) + ": ";
    JournalEntry const* const latest = status ? status->latest() : nullptr;
    if (!status) return line + "silent";
    if (!latest) return line + (answers ? "has called nothing yet" : "silent, has called nothing yet");
    if (!answers) {
      line += "silent";
      line += latest->done ? " since it left " : " in ";
      return line + entry_text(*latest) + ", " + std::string{latest->phase.text()} + ", " +
             seconds_text(now - latest->changed) + " ago";
    }
    line += latest->number < own ? "behind, in " : latest->number > own ? "ahead, in " : "waits in ";
    line += entry_text(*latest) + ", " + std::string{latest->phase.text()};
    if (status->waiting_for >= 0) line += ", for rank " + std::to_string(status->waiting_for);
    return line + ", since " + seconds_text(status->told - latest->changed);
  }

  // The operations of one rank before its latest, newest first.
  static std::string history_lines(Status const& status) {
    std::string lines;
    for (std::uint64_t back = 2; back <= Status::entries && back <= status.count; ++back) {
      JournalEntry const& entry = status.last[(status.count - back) % Status::entries];
      lines += "\n    before: " + entry_text(entry) + ", " + std::string{entry.phase.text()} + ", took " +
               std::to_string((entry.changed - entry.began) / 1000) + " us";
    }
    return lines;
  }

 private:
  static std::string seconds_text(std::int64_t ns) {
    auto const tenths = (ns + 50'000'000) / 100'000'000;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
  }

  static std::string entry_text(JournalEntry const& entry) {
    std::string text{entry.operation.text()};
    ((text += " (operation ") += std::to_string(entry.number)) += ", after step ";
    text += std::to_string(entry.step);
    if (entry.variable[0]) ((text += ", '") += entry.variable) += '\'';
    if (entry.bytes) ((text += ", ") += std::to_string(entry.bytes)) += " bytes sent";
    return text += ')';
  }

  C* comm_;
  std::vector<std::optional<Status>> known_;  // by rank
  std::vector<char> answers_;                 // by rank: it told so just now
};

}  // namespace parallax
