// Which settings an optimizer had in which steps: what exact semantics need to replay the steps that passed a row by. Each
// TableRows has one whose optimizer moves rows without a gradient.
#pragma once

#include <cstdint>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/archive.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/core/list.hpp"

namespace parallax {

// Owns notes of an optimizer's settings, in bounded room. All functions are local.
template <class O>
class OptimizerHistory {
 public:
  // These settings from step `from` on, which is not earlier than that of any note; of two notes for one step the later holds.
  // The first note makes room for all.
  void note(std::int64_t from, O const& optimizer) {
    notes_.reserve(most_notes);
    notes_.push_back({from, optimizer});
  }
  // Whether the last note has these settings, by their hash: then a step needs no other one.
  bool last_is(O const& optimizer) const { return fields_hash(notes_.back().optimizer) == fields_hash(optimizer); }
  // Whether there is no room for another note. Then all rows are settled first, and older notes forgotten.
  bool full() const { return notes_.size() == most_notes; }
  // Drops all notes but the last. Called when every row is settled, so that no earlier one is needed.
  void forget() { notes_.drop(0, notes_.size() - 1); }

  // Calls f(step, rule) for the steps after `settled` up to `last`, with the rule of the optimizer that was in force. At least
  // one note must not be later than `settled + 1`.
  template <class F>
  void replay(std::int64_t settled, std::int64_t last, F&& f) const {
    auto const later = [](std::int64_t step, Note const& note) { return step < note.from; };
    auto note = std::upper_bound(notes_.begin(), notes_.end(), settled + 1, later) - 1;
    for (std::int64_t step = settled + 1; step <= last; ++step) {
      while (note + 1 != notes_.end() && note[1].from <= step) ++note;
      f(step, note->optimizer.at(step));
    }
  }

  // Shows an archive all notes. Where notes were read that no history has, of rows settled in steps `least` to `most`: an Error
  // (mismatch).
  template <class A>
  void visit(Items<A>& items, std::int64_t least, std::int64_t most) {
    items.list("history", notes_, Note{1, O{}});
    if constexpr (A::reads) {
      bool right = !notes_.empty() && notes_.size() <= most_notes;
      right = right && notes_.front().from <= least + 1 && notes_.back().from <= most + 1;
      for (std::size_t i = 1; i < notes_.size(); ++i) right = right && notes_[i - 1].from <= notes_[i].from;
      if (!right) throw item_error(items.variable(), "history", "its steps do not fit those of the rows");
      notes_.reserve(most_notes);
    }
  }

 private:
  struct Note {
    std::int64_t from;  // the first step with this optimizer
    O optimizer;
  };
  // The bound of room and of the search for a note; changes of settings beyond it cost a settling of all rows.
  static constexpr std::size_t most_notes = 256;

  List<Note> notes_;
};

}  // namespace parallax
