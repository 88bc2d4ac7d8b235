// What each rank did last, for the report of a wait that took too long: which ranks are behind, and which say nothing.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace parallax {

enum class Operation : std::uint8_t { pull = 1, start, step, broadcast, finish };
// How far an operation has come: it was called; waits for all ranks to agree; exchanges; waits for the commit; gathers and
// applies; has returned.
enum class Phase : std::uint8_t { called = 1, agreeing, exchanging, committing, applying, done };

constexpr std::string_view to_string(Operation operation) {
  constexpr std::string_view names[] = {"nothing", "pull", "start", "step", "broadcast", "finish"};
  return names[static_cast<std::size_t>(operation)];
}
constexpr std::string_view to_string(Phase phase) {
  constexpr std::string_view names[] = {"", "called", "agreeing", "exchanging", "committing", "applying", "done"};
  return names[static_cast<std::size_t>(phase)];
}

// One operation of one rank.
struct JournalEntry {
  std::uint64_t number = 0;  // of the operation in its session, from 1
  std::int64_t step = 0;     // steps completed before it
  std::uint64_t bytes = 0;   // payload sent so far in it
  std::int64_t began = 0, changed = 0;  // ns of the communicator's clock
  Operation operation{};
  Phase phase{};
  char variable[38] = {};    // the first variable of it, cut to fit
};

// The last operations of one rank, as it told them; trivially copyable, so that it travels.
struct Status {
  static constexpr std::size_t entries = 8;

  std::array<JournalEntry, entries> last;  // last[(count - 1) % entries] is the latest
  std::uint64_t count = 0;
  std::int64_t told = 0;    // ns of the teller's clock when it said this
  std::int32_t waiting = 0; // inside an operation, waiting for others
  std::int32_t waiting_for = -1;

  JournalEntry const* latest() const { return count ? &last[(count - 1) % entries] : nullptr; }
};

// A rank's own record. Written by the rank, read by whoever reports; safe from several threads.
class Journal {
 public:
  void enter(Operation operation, std::uint64_t number, std::int64_t step, std::int64_t now) {
    std::lock_guard const lock{mutex_};
    JournalEntry& entry = status_.last[status_.count++ % Status::entries];
    entry = {};
    entry.number = number;
    entry.step = step;
    entry.began = entry.changed = now;
    entry.operation = operation;
    entry.phase = Phase::called;
  }
  void advance(Phase phase, std::uint64_t bytes, std::int64_t now) {
    std::lock_guard const lock{mutex_};
    if (status_.count == 0) return;
    JournalEntry& entry = status_.last[(status_.count - 1) % Status::entries];
    entry.phase = phase;
    entry.bytes = bytes;
    entry.changed = now;
    status_.waiting = 0;
  }
  void name(std::string_view variable) {
    std::lock_guard const lock{mutex_};
    if (status_.count == 0) return;
    char(&room)[sizeof(JournalEntry::variable)] = status_.last[(status_.count - 1) % Status::entries].variable;
    std::size_t const n = std::min(variable.size(), sizeof room - 1);
    std::memcpy(room, variable.data(), n);
    room[n] = '\0';
  }
  // A sign of life from a wait.
  void wait(int rank, std::int64_t now) {
    std::lock_guard const lock{mutex_};
    status_.waiting = 1;
    status_.waiting_for = rank;
    status_.told = now;
  }
  Status status() const {
    std::lock_guard const lock{mutex_};
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  Status status_;
};

namespace detail {

inline std::string seconds_text(std::int64_t ns) {
  auto const tenths = (ns + 50'000'000) / 100'000'000;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

inline std::string entry_text(JournalEntry const& entry) {
  std::string text{to_string(entry.operation)};
  ((text += " (operation ") += std::to_string(entry.number)) += ", after step ";
  text += std::to_string(entry.step);
  if (entry.variable[0]) ((text += ", '") += entry.variable) += '\'';
  if (entry.bytes) ((text += ", ") += std::to_string(entry.bytes)) += " bytes sent";
  return text += ')';
}

// A line on one rank. `own`: the number of the operation of the rank that reports; `now` and the status are of one clock, or
// of clocks that `now` was taken from alike.
inline std::string status_line(int rank, std::optional<Status> const& status, bool answers, std::uint64_t own, std::int64_t now) {
  std::string line = "  rank " + std::to_string(rank) + ": ";
  JournalEntry const* const latest = status ? status->latest() : nullptr;
  if (!status) return line + "silent";
  if (!latest) return line + (answers ? "has called nothing yet" : "silent, has called nothing yet");
  if (!answers) {
    line += "silent";
    line += latest->phase == Phase::done ? " since it left " : " in ";
    return line + entry_text(*latest) + ", " + std::string{to_string(latest->phase)} + ", " + seconds_text(now - latest->changed) +
           " ago";
  }
  line += latest->number < own ? "behind, in " : latest->number > own ? "ahead, in " : "waits in ";
  line += entry_text(*latest) + ", " + std::string{to_string(latest->phase)};
  if (status->waiting_for >= 0) line += ", for rank " + std::to_string(status->waiting_for);
  return line + ", since " + seconds_text(status->told - latest->changed);
}

// The operations of one rank before its latest, newest first.
inline std::string history_lines(Status const& status) {
  std::string lines;
  for (std::uint64_t back = 2; back <= Status::entries && back <= status.count; ++back) {
    JournalEntry const& entry = status.last[(status.count - back) % Status::entries];
    lines += "\n    before: " + entry_text(entry) + ", " + std::string{to_string(entry.phase)} + ", took " +
             std::to_string((entry.changed - entry.began) / 1000) + " us";
  }
  return lines;
}

}  // namespace detail
}  // namespace parallax
