// What each rank did last: kept by every rank of itself, for the report of a wait that took too long.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/clock.hpp"

namespace parallax {

// A name that the journal's owner gives: of an operation, or of how far it has come. Holds its text, so that it travels between
// processes; what is longer is cut.
class JournalWord {
 public:
  constexpr JournalWord() = default;
  constexpr JournalWord(std::string_view word) {
    for (std::size_t i = 0; i < word.size() && i + 1 < sizeof text_; ++i) text_[i] = word[i];
  }
  constexpr JournalWord(char const* word) : JournalWord{std::string_view{word}} {}
  constexpr std::string_view text() const { return text_; }

 private:
  char text_[16] = {};
};

// What the journal itself says of how far an operation has come, before and after the words of its owner.
inline constexpr JournalWord journal_called{"called"}, journal_done{"done"};

// One operation of one rank.
struct JournalEntry {
  std::uint64_t number = 0;  // of the operation, from 1, as its owner counts
  std::int64_t step = 0;     // steps completed before it
  std::uint64_t bytes = 0;   // payload sent so far in it
  std::int64_t began = 0, changed = 0;  // ns of the communicator's clock
  JournalWord operation, phase;
  char variable[38] = {};    // the first variable of it, cut to fit
  bool done = false;         // it has returned
};

// The last operations of one rank, as it told them; trivially copyable, so that it travels.
struct Status {
  static constexpr std::size_t entries = 8;

  std::array<JournalEntry, entries> last;  // last[(count - 1) % entries] is the latest
  std::uint64_t count = 0;
  std::int64_t told = 0;    // ns of the teller's clock when it said this
  std::int32_t waiting = 0; // inside an operation, waiting for others
  std::int32_t waiting_for = -1;
  std::int64_t pause = 0;    // ns for which it is busy at most, with what is called `pausing`; 0: it has announced nothing
  JournalWord pausing;

  JournalEntry const* latest() const { return count ? &last[(count - 1) % entries] : nullptr; }
  // ns of the teller's clock when it did or said anything; of a rank that has called nothing, before all times.
  std::int64_t heard() const { return count ? std::max(told, latest()->changed) : std::numeric_limits<std::int64_t>::min(); }
};

// What a trace keeps of every phase of every operation: when it began.
struct TraceEvent {
  enum Kind : std::uint8_t { called, advanced, done };

  std::uint64_t number = 0;  // of the operation
  std::int64_t at = 0;       // ns of the communicator's clock
  std::uint64_t bytes = 0;   // payload sent so far in the operation
  JournalWord operation, phase;
  Kind kind = called;
};

// Does not own. Room for events; what finds none is counted and dropped.
struct TraceRoom {
  TraceEvent* events = nullptr;
  std::size_t size = 0, capacity = 0, dropped = 0;

  void add(TraceEvent const& event) noexcept {
    if (size < capacity) events[size++] = event;
    else ++dropped;
  }
};

// A rank's own record, in the words of its owner: of the session on this rank. Written by the rank, read by whoever reports;
// safe from several threads.
class Journal {
 public:
  // From now on every phase is noted there as well; null: no more.
  void record(TraceRoom* room) {
    detail::Guard const guard{lock_};
    trace_ = room;
  }
  // Whether its owner has begun and not come to its normal end, which peers wait for.
  void open(bool on) {
    detail::Guard const guard{lock_};
    open_ = on;
  }
  bool open() const {
    detail::Guard const guard{lock_};
    return open_;
  }
  void enter(JournalWord const& operation, std::uint64_t number, std::int64_t step, std::int64_t now) {
    detail::Guard const guard{lock_};
    JournalEntry& entry = status_.last[status_.count++ % Status::entries];
    entry = {};
    entry.number = number;
    entry.step = step;
    entry.began = entry.changed = now;
    entry.operation = operation;
    entry.phase = journal_called;
    if (trace_) trace_->add({number, now, 0, operation, journal_called, TraceEvent::called});
  }
  // The operation has come to this phase.
  void advance(JournalWord const& phase, std::uint64_t bytes, std::int64_t now) {
    advance(phase, bytes, now, TraceEvent::advanced);
  }
  // The operation has returned.
  void leave(std::uint64_t bytes, std::int64_t now) { advance(journal_done, bytes, now, TraceEvent::done); }
  void name(std::string_view variable) {
    detail::Guard const guard{lock_};
    if (status_.count == 0) return;
    char(&room)[sizeof(JournalEntry::variable)] = status_.last[(status_.count - 1) % Status::entries].variable;
    std::size_t const n = std::min(variable.size(), sizeof room - 1);
    if (n > 0) std::memcpy(room, variable.data(), n);
    room[n] = '\0';
  }
  // A sign of life from a wait.
  void wait(int rank, std::int64_t now) {
    detail::Guard const guard{lock_};
    status_.waiting = 1;
    status_.waiting_for = rank;
    status_.told = now;
  }
  // The rank will be busy for so long (ns), or is no more (0).
  void pause(JournalWord const& pausing, std::int64_t at_most, std::int64_t now) {
    detail::Guard const guard{lock_};
    status_.pausing = pausing;
    status_.pause = at_most;
    status_.told = now;
  }
  Status status() const {
    detail::Guard const guard{lock_};
    return status_;
  }

 private:
  void advance(JournalWord const& phase, std::uint64_t bytes, std::int64_t now, TraceEvent::Kind kind) {
    detail::Guard const guard{lock_};
    if (status_.count == 0) return;
    JournalEntry& entry = status_.last[(status_.count - 1) % Status::entries];
    entry.phase = phase;
    entry.done = kind == TraceEvent::done;
    entry.bytes = bytes;
    entry.changed = now;
    status_.waiting = 0;
    if (trace_) trace_->add({entry.number, now, bytes, entry.operation, phase, kind});
  }

  mutable detail::SpinLock lock_;
  Status status_;
  bool open_ = false;
  TraceRoom* trace_ = nullptr;
};

}  // namespace parallax
