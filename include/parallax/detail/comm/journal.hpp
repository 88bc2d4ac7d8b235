// The last acts of each rank: its session writes them on the way, and the report of a wait that took too long reads them.
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

// A name from the journal's owner: of an operation, or of its phase. Holds its text, so that it travels between processes; a
// longer one is cut.
class JournalWord {
 public:
  constexpr JournalWord() = default;
  // Keeps at most 15 bytes.
  constexpr JournalWord(std::string_view word) {
    for (std::size_t i = 0; i < word.size() && i + 1 < sizeof text_; ++i) text_[i] = word[i];
  }
  // Keeps at most 15 bytes of a literal.
  constexpr JournalWord(char const* word) : JournalWord{std::string_view{word}} {}
  // Returns the kept bytes, as long as this word lives.
  constexpr std::string_view text() const { return text_; }

 private:
  char text_[16] = {};
};

// The phase of an operation that has begun, before the first word of its owner.
inline constexpr JournalWord journal_called{"called"}, journal_done{"done"};  // the phase of a returned one

// One operation of one rank.
struct JournalEntry {
  std::uint64_t number = 0;  // of the operation, from 1, as its owner counts
  std::int64_t step = 0;     // steps completed before it
  std::uint64_t bytes = 0;   // payload sent so far in it
  // Time of its call, ns of the communicator's clock.
  std::int64_t began = 0, changed = 0;  // ns of that clock, at its last change of phase
  // The operation called, such as `step`.
  JournalWord operation, phase;  // its phase now
  char variable[38] = {};        // the first variable of it, cut to fit
  bool done = false;             // it has returned
};

// The last operations of one rank, as it told them; trivially copyable, so that it travels.
struct RankStatus {
  // Number of kept operations; each further one takes the place of the oldest.
  static constexpr std::size_t entries = 8;

  std::array<JournalEntry, entries> last;  // last[(count - 1) % entries] is the latest
  std::uint64_t count = 0;                 // of operations ever entered
  std::int64_t told = 0;                   // ns of the teller's clock at this word
  std::int32_t waiting = 0;                // 1: inside an operation, waiting for others
  std::int32_t waiting_for = -1;           // the rank that it waits for; -1: it waits for none, or cannot tell
  std::int64_t pause = 0;                  // most ns of its work on `pausing`; 0: it has announced nothing
  JournalWord pausing;                     // the rank's announced work; empty if it has announced nothing

  // Returns the operation entered last, inside this status; null if there is none.
  JournalEntry const* latest() const { return count ? &last[(count - 1) % entries] : nullptr; }
  // Returns the ns of the teller's clock at its last act or word; of a rank without calls, before all times.
  std::int64_t heard() const { return count ? std::max(told, latest()->changed) : std::numeric_limits<std::int64_t>::min(); }
};

// The lower 56 bits of a rank's clock in ns, as an agreement carries them; 0: none was told.
struct ToldClock {
  // The bits.
  std::uint64_t low = 0;

  // Returns the lead of `clock`, in ns, over the told clock, in ns. The two are less than a year apart.
  constexpr std::int64_t behind(std::int64_t clock) const {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(clock) - low) << 8) >> 8;
  }
};

// A trace's record of one phase of an operation: its begin.
struct TraceEvent {
  // Kind of event: the operation began, came to another phase, or returned.
  enum Kind : std::uint8_t { called, advanced, done };

  std::uint64_t number = 0;  // of the operation
  std::int64_t at = 0;       // ns of the communicator's clock
  std::uint64_t bytes = 0;   // payload sent so far in the operation
  // The operation called.
  JournalWord operation, phase;  // the phase that begins
  // The journal's call that noted it.
  Kind kind = called;
  std::int64_t seen = 0;  // ns, when this was noted: a little after `at`, if `at` is a wait's last look in vain
  // The clock of rank 0 at the begin of its agreement, if an agreement has come to its end here.
  ToldClock first = {};
};

// Does not own. Room for events; an event without room is counted and dropped.
struct TraceRoom {
  // Room for `capacity` events; it must stay as long as the journal records there.
  TraceEvent* events = nullptr;
  std::size_t size = 0,  // events there
      capacity = 0,      // most events
      dropped = 0;       // events without room
  // The communicator's clock in ns; null: events were seen when they say.
  std::int64_t (*clock)(void*) = nullptr;
  // The clock's argument.
  void* clock_of = nullptr;

  // Adds an event. Called by the journal under its lock, once for each phase; allocates nothing.
  void add(TraceEvent const& event) noexcept {
    if (size == capacity) return static_cast<void>(++dropped);
    events[size] = event;
    events[size++].seen = clock ? clock(clock_of) : event.at;
  }
};

// A rank's own record, in the words of its owner: of the session on this rank. Written by the rank, read for reports; safe from
// several threads.
class Journal {
 public:
  // Notes every phase in `room` as well from now on; null: no more. Not owned: it must outlive the journal, or be taken back.
  void record(TraceRoom* room) {
    detail::Guard const guard{lock_};
    trace_ = room;
  }
  // Sets the flag that its owner has begun and not come to its normal end, which peers wait for.
  void open(bool on) {
    detail::Guard const guard{lock_};
    open_ = on;
  }
  // Returns the flag set by `open`. Asked by MPI's communicator when it goes or the process exits.
  bool open() const {
    detail::Guard const guard{lock_};
    return open_;
  }
  // Enters an operation. `number`: as its owner counts, from 1; `step`: steps completed before it; `now`: ns of the
  // communicator's clock, here and below. `phase`: its first one. `variable`: the first one of it, cut to 37 bytes.
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
  // Advances the latest operation to this phase. `bytes`: payload sent in it so far. `first`: rank 0's clock, if an agreement
  // has told it.
  void advance(JournalWord const& phase, std::uint64_t bytes, std::int64_t now, ToldClock first = {}) {
    advance(phase, bytes, now, TraceEvent::advanced, first);
  }
  // Leaves the latest operation: it has returned.
  void leave(std::uint64_t bytes, std::int64_t now) { advance(journal_done, bytes, now, TraceEvent::done, {}); }
  // Returns the time, ns, of the latest operation's call or last change of phase; 0 if there is none.
  std::int64_t changed() const {
    detail::Guard const guard{lock_};
    return status_.count > 0 ? status_.latest()->changed : 0;
  }
  // Names a variable of the latest operation, cut to 37 bytes; nothing happens without an operation.
  void name(std::string_view variable) {
    detail::Guard const guard{lock_};
    if (status_.count > 0) name(status_.last[(status_.count - 1) % RankStatus::entries], variable);
  }
  // Notes a sign of life, at `now`, from a wait for rank `rank`; -1: for none, or an unknown one.
  void wait(int rank, std::int64_t now) {
    detail::Guard const guard{lock_};
    status_.waiting = 1;
    status_.waiting_for = rank;
    status_.told = now;
  }
  // Notes at `now` that the rank will be busy with `pausing` for at most so many ns, or is so no more (0).
  void pause(JournalWord const& pausing, std::int64_t at_most, std::int64_t now) {
    detail::Guard const guard{lock_};
    status_.pausing = pausing;
    status_.pause = at_most;
    status_.told = now;
  }
  // Returns a copy of the rank's present status. May be called by any thread.
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
  // Does the work of `advance` and `leave`: changes the latest operation, ends a wait, and notes it if a trace is kept.
  void advance(JournalWord const& phase, std::uint64_t bytes, std::int64_t now, TraceEvent::Kind kind, ToldClock first) {
    detail::Guard const guard{lock_};
    if (status_.count == 0) return;
    status_.waiting = 0;
    JournalEntry& entry = status_.last[(status_.count - 1) % RankStatus::entries];
    if (entry.done) return;  // the worker has entered no operation: it only lets others move on
    entry.phase = phase;
    entry.done = kind == TraceEvent::done;
    entry.bytes = bytes;
    entry.changed = now;
    if (trace_) trace(entry, kind, first);
  }
  // Notes the entry as it is now, under the lock. An operation that begins in a phase is there at once.
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

  // Held for a few copies at a time, by the rank and by readers of its journal.
  mutable detail::SpinLock lock_;
  RankStatus status_;
  bool open_ = false;
  TraceRoom* trace_ = nullptr;
};

}  // namespace parallax
