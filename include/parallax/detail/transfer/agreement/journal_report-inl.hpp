// Bodies of parallax/detail/transfer/agreement/journal_report.hpp.
#pragma once

#include "parallax/detail/transfer/agreement/journal_report.hpp"

namespace parallax::inline v0_2::detail {

// Returns seconds with one decimal, rounded.
inline std::string seconds_text(std::int64_t ns) {
  auto const tenths = (ns + 50'000'000) / 100'000'000;
  return joined({tenths / 10, ".", tenths % 10, " s"});
}
// Returns one operation as a line of the report: its name, its number, the step before it, its variable and its bytes.
inline std::string entry_text(JournalEntry const& entry) {
  std::string text = joined({entry.operation.text(), " (operation ", entry.number, ", after step ", entry.step});
  if (entry.variable[0]) append(text, {", '", entry.variable, "'"});
  if (entry.bytes) append(text, {", ", entry.bytes, " bytes sent"});
  return text += ')';
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE int RankTales::to_blame(int missing) const {
  Buffer<LastWord> words(tales_.size());
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    auto const& [known, answers] = tales_[rank];
    words[rank] = {};
    if (known) words[rank] = {answers ? LastWord::just_now : known->heard(), known->waiting ? known->waiting_for : -1};
  }
  return rank_to_blame(words, static_cast<int>(self_), missing);
}
PARALLAX_INLINE std::string RankTales::text() const {
  auto const& own = tales_[self_].known;
  std::uint64_t const number = own && own->latest() ? own->latest()->number : 0;
  std::string report;
  for (int rank = 0; auto const& [known, answers] : tales_) {
    append(report, {'\n', status_line(rank++, known, answers, number, asked_until_)});
    if (known) report += history_lines(*known);
  }
  return report;
}
PARALLAX_INLINE std::string RankTales::status_line(int rank, std::optional<RankStatus> const& status, bool answers,
                                                   std::uint64_t own, std::int64_t now) {
  std::string line = joined({"  rank ", rank, ": "});
  if (!status) return line += "silent";
  JournalEntry const* const latest = status->latest();
  if (!latest) {
    line += answers ? "has called nothing yet" : "silent, has called nothing yet";
  } else if (!answers) {
    append(line, {"silent", latest->done ? " since it left " : " in ", detail::entry_text(*latest), ", ", latest->phase.text(),
                  ", ", detail::seconds_text(now - latest->changed), " ago"});
  } else {
    line += latest->number < own ? "behind, in " : latest->number > own ? "ahead, in " : "waits in ";
    append(line, {detail::entry_text(*latest), ", ", latest->phase.text()});
    if (status->waiting_for >= 0) append(line, {", for rank ", status->waiting_for});
    append(line, {", since ", detail::seconds_text(status->told - latest->changed)});
  }
  if (status->pause > 0)
    append(line, {", in a pause for ", status->pausing.text(), " of at most ", detail::seconds_text(status->pause)});
  return line;
}
PARALLAX_INLINE std::string RankTales::history_lines(RankStatus const& status) {
  std::string lines;
  for (std::uint64_t back = 2; back <= RankStatus::entries && back <= status.count; ++back) {
    JournalEntry const& entry = status.last[(status.count - back) % RankStatus::entries];
    append(lines, {"\n    before: ", detail::entry_text(entry), ", ", entry.phase.text(), ", took ",
                   (entry.changed - entry.began) / 1000, " us"});
  }
  return lines;
}

}  // namespace parallax
