// What each rank did last: kept by every rank of itself, for the report of a wait that took too long.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/clock.hpp"

namespace parallax {

enum class Operation : std::uint8_t { pull = 1, start, step, broadcast, bind_step, search_pieces, finish };
// How far an operation has come: it was called; waits for all ranks to agree; exchanges; waits for the commit; gathers and
// applies; has returned.
enum class Phase : std::uint8_t { called = 1, agreeing, exchanging, committing, applying, done };

constexpr std::string_view to_string(Operation operation) {
  constexpr std::string_view names[] = {"nothing", "pull", "start", "step", "broadcast", "bind_step",
                                        "search_pieces", "finish"};
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

// What a trace keeps of every phase of every operation: when it began.
struct TraceEvent {
  std::uint64_t number = 0;  // of the operation in its session
  std::int64_t at = 0;       // ns of the communicator's clock
  std::uint64_t bytes = 0;   // payload sent so far in the operation
  Operation operation{};
  Phase phase{};
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

// A rank's own record. Written by the rank, read by whoever reports; safe from several threads.
class Journal {
 public:
  // From now on every phase is noted there as well; null: no more.
  void record(TraceRoom* room) {
    detail::Guard const guard{lock_};
    trace_ = room;
  }
  void enter(Operation operation, std::uint64_t number, std::int64_t step, std::int64_t now) {
    detail::Guard const guard{lock_};
    JournalEntry& entry = status_.last[status_.count++ % Status::entries];
    entry = {};
    entry.number = number;
    entry.step = step;
    entry.began = entry.changed = now;
    entry.operation = operation;
    entry.phase = Phase::called;
    if (trace_) trace_->add({number, now, 0, operation, Phase::called});
  }
  void advance(Phase phase, std::uint64_t bytes, std::int64_t now) {
    detail::Guard const guard{lock_};
    if (status_.count == 0) return;
    JournalEntry& entry = status_.last[(status_.count - 1) % Status::entries];
    entry.phase = phase;
    entry.bytes = bytes;
    entry.changed = now;
    status_.waiting = 0;
    if (trace_) trace_->add({entry.number, now, bytes, entry.operation, phase});
  }
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
  Status status() const {
    detail::Guard const guard{lock_};
    return status_;
  }

 private:
  mutable detail::SpinLock lock_;
  Status status_;
  TraceRoom* trace_ = nullptr;
};

}  // namespace parallax
