// The settings of an optimizer by step: exact semantics replay by them the steps that passed a row by. TableRows of an
// optimizer that moves rows without a gradient has one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/core/archive.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"

namespace parallax::inline v0_2 {

// The bytes that the notes of an optimizer's settings take beside a table before rows are settled for their sake. A test
// specialises it for its optimizer, so that few notes are many.
template <class O>
inline constexpr std::size_t most_note_bytes = std::size_t{64} << 20;

// Owns notes of an optimizer's settings: one for each step that changed them. Ranks with the same steps show archives the same
// notes, whatever rows a rank has settled by then: past one number of notes, the oldest are shown no more. A rank late with its
// rows keeps more. All functions are local.
template <class O>
class OptimizerHistory {
 public:
  // Notes these settings from step `from` on: no note may be of a later one; of two notes for one step the later holds. Throws
  // std::bad_alloc, and has changed nothing then.
  void note(std::int64_t from, O const& optimizer) {
    if (notes_.empty()) notes_.reserve(first_notes);
    notes_.push_back({from, optimizer});
    if (notes_.size() - shown_ < most_notes + most_notes / 2) return;
    shown_ += most_notes / 2;
    forget();
  }
  // Returns true if the last note has these settings, by their hash: then a step needs no other one.
  bool last_is(O const& optimizer) const { return fields_hash(notes_.back().optimizer) == fields_hash(optimizer); }

  // Returns the oldest step of rows: no row here is as of an earlier one.
  std::int64_t oldest() const { return oldest_; }
  // Notes that from now on no row here is as of an earlier step than this.
  void settled_to(std::int64_t step) {
    oldest_ = step;
    if (shown_ > most_notes / 2) forget();  // seldom, for it moves the rest
  }
  // Returns the step up to which rows are to be settled, so that the notes stay within their bytes.
  std::int64_t goal() const {
    bool const many = notes_.size() - shown_ >= most_notes;
    return notes_[many ? shown_ + most_notes / 2 : shown_].from - 1;
  }
  // Returns the step up to which rows have to be settled before an archive is shown the notes.
  std::int64_t shown_from() const { return notes_[shown_].from - 1; }

  // Calls f(step, rule) for each step in [first, last], with the rule of the settings in force at this step. At least one note
  // must be of step `first` or an earlier one.
  template <class F>
  void replay(std::int64_t first, std::int64_t last, F&& f) const {
    auto const later = [](std::int64_t step, Note const& note) { return step < note.from; };
    auto note = std::upper_bound(notes_.begin(), notes_.end(), first, later) - 1;
    for (std::int64_t step = first; step <= last; ++step) {
      while (note + 1 != notes_.end() && note[1].from <= step) ++note;
      f(step, note->optimizer.at(step));
    }
  }

  // Shows an archive the notes; rows here are as of steps `least` to `most`, none of an earlier one than `shown_from`. Throws
  // the archive's errors, and Error (mismatch) for notes read that do not fit these steps.
  template <class A>
  void visit(Items<A>& items, std::int64_t least, std::int64_t most) {
    if constexpr (A::reads) {
      shown_ = 0;
    } else {
      oldest_ = std::max(oldest_, least);
      forget();
    }
    items.list("history", notes_, Note{1, O{}});
    if constexpr (A::reads) {
      bool right = !notes_.empty() && notes_.front().from <= least + 1 && notes_.back().from <= most + 1;
      for (std::size_t i = 1; i < notes_.size(); ++i) right = right && notes_[i - 1].from <= notes_[i].from;
      if (!right) throw item_error(items.variable(), "history", "its steps do not fit those of the rows");
      oldest_ = least;
    }
  }

 private:
  struct Note {
    std::int64_t from;  // the first step with this optimizer
    O optimizer;
  };
  static constexpr std::size_t first_notes = 64, most_notes = std::max<std::size_t>(most_note_bytes<O> / sizeof(Note), 4);

  // Drops the notes needed by no archive and by no row here.
  void forget() {
    std::size_t needed = 0;
    while (needed < shown_ && notes_[needed + 1].from <= oldest_ + 1) ++needed;
    notes_.drop(0, needed);
    shown_ -= needed;
  }

  List<Note> notes_;
  std::size_t shown_ = 0;    // the first one shown to archives
  std::int64_t oldest_ = 0;  // no row is as of an earlier step
};

}  // namespace parallax
