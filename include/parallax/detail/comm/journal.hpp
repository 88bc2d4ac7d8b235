// What each rank did last: its session writes it on the way, and the report of a wait that took too long reads it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {

// A name that the journal's owner gives: of an operation, or of how far it has come. Holds its text, so that it travels between
// processes; what is longer is cut.
class JournalWord {
 public:
  constexpr JournalWord() = default;
  // At most 15 bytes are kept.
  constexpr JournalWord(std::string_view word) {
    for (std::size_t i = 0; i < word.size() && i + 1 < sizeof text_; ++i) text_[i] = word[i];
  }
  // The same of a literal.
  constexpr JournalWord(char const* word) : JournalWord{std::string_view{word}} {}
  // The kept bytes, as long as this word lives.
  constexpr std::string_view text() const { return text_; }

 private:
  char text_[16] = {};
};

// The phase of an operation that has begun, before the first word of its owner.
inline constexpr JournalWord journal_called{"called"}, journal_done{"done"};  // the phase of one that has returned

// One operation of one rank.
struct JournalEntry {
  std::uint64_t number = 0;  // of the operation, from 1, as its owner counts
  std::int64_t step = 0;     // steps completed before it
  std::uint64_t bytes = 0;   // payload sent so far in it
  // When it was called, ns of the communicator's clock.
  std::int64_t began = 0, changed = 0;  // ns, likewise, when it last came to another phase
  // What was called, such as `step`.
  JournalWord operation, phase;  // how far it has come
  char variable[38] = {};        // the first variable of it, cut to fit
  bool done = false;             // it has returned
};

// The last operations of one rank, as it told them; trivially copyable, so that it travels.
struct RankStatus {
  // Operations that are kept; each further one takes the place of the oldest.
  static constexpr std::size_t entries = 8;

  std::array<JournalEntry, entries> last;  // last[(count - 1) % entries] is the latest
  // Operations that were ever entered.
  std::uint64_t count = 0;
  std::int64_t told = 0;     // ns of the teller's clock when it said this
  std::int32_t waiting = 0;  // 1: inside an operation, waiting for others
  // The rank that it waits for; -1: it waits for none, or cannot tell.
  std::int32_t waiting_for = -1;
  std::int64_t pause = 0;  // ns for which it is busy at most, with what is called `pausing`; 0: it has announced nothing
  // What the rank is busy with; empty where it has announced nothing.
  JournalWord pausing;

  // The operation that was entered last, inside this status; null where there is none.
  JournalEntry const* latest() const { return count ? &last[(count - 1) % entries] : nullptr; }
  // ns of the teller's clock when it did or said anything; of a rank that has called nothing, before all times.
  std::int64_t heard() const { return count ? std::max(told, latest()->changed) : std::numeric_limits<std::int64_t>::min(); }
};

// The lower 56 bits of a rank's clock in ns, as an agreement carries them; 0: none was told.
struct ToldClock {
  // The bits.
  std::uint64_t low = 0;

  // Returns by how much `clock` is ahead of it, in ns. They are less than a year apart.
  constexpr std::int64_t behind(std::int64_t clock) const {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(clock) - low) << 8) >> 8;
  }
};

// What a trace keeps of every phase of every operation: when it began.
struct TraceEvent {
  // What happened: the operation began, came to another phase, or returned.
  enum Kind : std::uint8_t { called, advanced, done };

  std::uint64_t number = 0;  // of the operation
  std::int64_t at = 0;       // ns of the communicator's clock
  std::uint64_t bytes = 0;   // payload sent so far in the operation
  // What was called.
  JournalWord operation, phase;  // the phase that begins
  // By which call of the journal it was noted.
  Kind kind = called;
  std::int64_t seen = 0;  // ns, when this was noted: a little after `at`, where that is when a wait last looked in vain
  // The clock of rank 0 when it began to agree, if an agreement has come to its end here.
  ToldClock first = {};
};

// Does not own. Room for events; what finds none is counted and dropped.
struct TraceRoom {
  // Room for `capacity` events; it must stay as long as the journal records there.
  TraceEvent* events = nullptr;
  std::size_t size = 0,  // events that are there
      capacity = 0,      // events that there is room for
      dropped = 0;       // events that found none
  // The communicator's clock in ns; null: events were seen when they say.
  std::int64_t (*clock)(void*) = nullptr;
  // The clock's argument.
  void* clock_of = nullptr;

  // Called by the journal under its lock, once for each phase; allocates nothing.
  void add(TraceEvent const& event) noexcept {
    if (size == capacity) return static_cast<void>(++dropped);
    events[size] = event;
    events[size++].seen = clock ? clock(clock_of) : event.at;
  }
};

// A rank's own record, in the words of its owner: of the session on this rank. Written by the rank, read by whoever reports;
// safe from several threads.
class Journal {
 public:
  // From now on every phase is noted there as well; null: no more.
  // Not owned: it must outlive the journal, or be taken back.
  void record(TraceRoom* room) {
    detail::Guard const guard{lock_};
    trace_ = room;
  }
  // Whether its owner has begun and not come to its normal end, which peers wait for.
  void open(bool on) {
    detail::Guard const guard{lock_};
    open_ = on;
  }
  // Asked by MPI's communicator when it goes or the process exits.
  bool open() const {
    detail::Guard const guard{lock_};
    return open_;
  }
  // The operation begins. `number`: as its owner counts, from 1; `step`: steps completed before it; `now`: ns of the
  // communicator's clock, here and below. `phase`: where it is at once. `variable`: the first one of it, cut to 37 bytes.
  void enter(JournalWord const& operation, std::uint64_t number, std::int64_t step, std::int64_t now,
             JournalWord const& phase = journal_called, std::string_view variable = {}) {
    detail::Guard const guard{lock_};
    JournalEntry& entry = status_.last[status_.count++ % RankStatus::entries];
    entry = {};
    entry.number = number;
    entry.step = step;
    entry.began = entry.changed = now;
    entry.operation = operation;
    entry.phase = phase;
    name(entry, variable);
    if (trace_) trace(entry, TraceEvent::called);
  }
  // The operation has come to this phase. `first`: rank 0's clock, where an agreement has told of it.
  void advance(JournalWord const& phase, std::uint64_t bytes, std::int64_t now, ToldClock first = {}) {
    advance(phase, bytes, now, TraceEvent::advanced, first);
  }
  // The operation has returned.
  void leave(std::uint64_t bytes, std::int64_t now) { advance(journal_done, bytes, now, TraceEvent::done, {}); }
  // Returns when the latest operation was called or last came to another phase; 0 where there is none.
  std::int64_t changed() const {
    detail::Guard const guard{lock_};
    return status_.count > 0 ? status_.latest()->changed : 0;
  }
  // Names a variable of the latest operation, cut likewise; nothing happens where there is none.
  void name(std::string_view variable) {
    detail::Guard const guard{lock_};
    if (status_.count > 0) name(status_.last[(status_.count - 1) % RankStatus::entries], variable);
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
  // A copy of what the rank tells of itself now. May be called by any thread.
  RankStatus status() const {
    detail::Guard const guard{lock_};
    return status_;
  }

 private:
  static void name(JournalEntry& entry, std::string_view variable) {
    std::size_t const n = std::min(variable.size(), sizeof entry.variable - 1);
    if (n > 0) std::memcpy(entry.variable, variable.data(), n);
    entry.variable[n] = '\0';
  }
  // Both ends of `advance` and `leave`: changes the latest operation, ends a wait, and notes it where a trace is kept.
  void advance(JournalWord const& phase, std::uint64_t bytes, std::int64_t now, TraceEvent::Kind kind, ToldClock first) {
    detail::Guard const guard{lock_};
    if (status_.count == 0) return;
    status_.waiting = 0;
    JournalEntry& entry = status_.last[(status_.count - 1) % RankStatus::entries];
    if (entry.done) return;  // whoever is at work now has entered no operation: one that only lets others move on
    entry.phase = phase;
    entry.done = kind == TraceEvent::done;
    entry.bytes = bytes;
    entry.changed = now;
    if (trace_) trace(entry, kind, first);
  }
  // Under the lock: notes what the entry says now. One that begins in a phase is there at once.
  PARALLAX_COLD void trace(JournalEntry const& entry, TraceEvent::Kind kind, ToldClock first = {}) {
    TraceEvent event{entry.number, entry.changed, entry.bytes, entry.operation, entry.phase, kind, 0, first};
    if (kind == TraceEvent::called && entry.phase.text() != journal_called.text()) {
      event.phase = journal_called;
      trace_->add(event);
      event.phase = entry.phase;
      event.kind = TraceEvent::advanced;
    }
    trace_->add(event);
  }

  // Held for a few copies at a time, by the rank and by those who read its journal.
  mutable detail::SpinLock lock_;
  RankStatus status_;
  bool open_ = false;
  TraceRoom* trace_ = nullptr;
};

}  // namespace parallax
