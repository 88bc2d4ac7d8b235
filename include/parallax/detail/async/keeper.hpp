// The ranks' work on one variable of an AsyncSession, without its type. A policy's `letters<Kind>` makes these: a Keeper for
// each variable, and an Asked or Brought for each argument of a pull or a push.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "parallax/comm/topology.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/async/letter.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/variable/registration.hpp"

namespace parallax::inline v0_2 {

// One worker's push of a variable: `count` rows or elements in `runs`. Refers to the letter, which stays until the commit.
struct PushedPart {
  // Rows of a table, or elements of a dense variable.
  std::uint64_t count = 0;
  // All runs of the section, as the worker wrote them.
  std::span<std::byte const> runs;
};

// One variable, at every rank: its owner's answers and commits. Owns the owner's data beside the variable's state; the service
// calls it. All of it is local.
class Keeper {
 public:
  virtual ~Keeper() = default;
  // Returns the variable's registration, known to all ranks.
  virtual Registration const& registration() const = 0;
  // Adds the facts for ranks to compare when training begins: the variable, and the settings of its optimizer.
  virtual void add_settings(Fingerprint& into) const = 0;
  // Returns the scheduled settings, in words; empty: there are none.
  virtual std::string scheduled() const = 0;
  // Gives the optimizer the settings of the next update, if they are scheduled.
  virtual void next_settings() = 0;

  // Begins training: from here on the owner's share is the Keeper's, unless it is the variable's own.
  virtual void begin() {}
  // Ends training on this rank: the share is the variable's again.
  virtual void end() {}
  // Returns the number of updates so far: at an owner, of all of them; elsewhere as last told.
  virtual std::int64_t steps() const = 0;
  // Sets the number of updates, on a rank that owns nothing.
  virtual void catch_up(std::int64_t steps) = 0;
  // A view of a dense variable's memory on this rank. Of a table it is empty.
  struct Parts {
    // All elements.
    std::span<std::byte> memory;
    // Bytes of an element; 0: the variable is a table.
    std::size_t unit = 0;
  };
  // Returns the memory, of the variable, for the owners' parts, brought to every rank once all is quiet.
  virtual Parts parts() { return {}; }
  // Returns the number of the first element of an owner's part; for the number of owners, the end.
  virtual std::size_t begin_of(int) const { return 0; }

  // Reads the question of a pull, about `count` rows, and appends the answer's section. Throws Error (mismatch) of a wrong one.
  virtual void answer(LetterReader& letter, std::uint64_t count, LetterDraft& answer) = 0;
  // Returns the content of a push, `count` rows or elements, checked, as a view into the letter. Throws Error (mismatch).
  virtual PushedPart pushed(LetterReader& letter, std::uint64_t count) = 0;
  // Makes one update by the sum of these parts, in their order, divided by their number if the variable's Reduce says so, and
  // times `scale`.
  virtual void commit(Slice<PushedPart const> parts, double scale) = 0;

  // The number of the variable, in their order of making.
  std::uint32_t number = 0;
};

// A Keeper by the variable's state, which it shares, also once the variable is gone. A policy derives its own from it.
template <class State>
class KeeperOf : public Keeper {
  using Optimizer = typename State::optimizer_type;

 public:
  // Shares the state with the variable: it stays as long as either.
  explicit KeeperOf(Shared<State> state) : state_{std::move(state)} {}
  Registration const& registration() const final { return *state_->registration(); }
  void add_settings(Fingerprint& into) const final {
    into.fold(registration().hash);
    if (!schedule_) fold_fields(state_->optimizer(), into);
    else probe([&](std::int64_t, Optimizer const& settings) { fold_fields(settings, into); });
  }
  std::string scheduled() const final {
    std::string words;
    if (schedule_)
      probe([&](std::int64_t update, Optimizer const& settings) {
        words += joined({words.empty() ? "" : ", ", "update ", update, settings_text(settings)});
      });
    return words;
  }
  void next_settings() final {
    if (schedule_) schedule_(state_->optimizer(), state_->steps());
  }
  // Schedules settings by set(optimizer, number of updates before), called at once as well: see AsyncSession::schedule.
  void schedule(std::function<void(Optimizer&, std::int64_t)> set) {
    schedule_ = std::move(set);
    state_->expect_change();
    next_settings();
  }
  std::int64_t steps() const final { return state_->steps(); }
  void catch_up(std::int64_t steps) final { state_->catch_up(steps); }

 protected:
  // State of the variable, shared with it.
  Shared<State> state_;

 private:
  // Calls f(update, settings) for some updates. Ranks compare schedules by these, for functions cannot be compared.
  template <class F>
  void probe(F&& f) const {
    for (std::int64_t const update : {0, 1, 1'000, 1'000'000}) {
      Optimizer settings = state_->optimizer();
      schedule_(settings, update);
      f(update, settings);
    }
  }

  std::function<void(Optimizer&, std::int64_t)> schedule_;
};

// One argument of a push, at a worker. Made for one call. Refers to the argument.
class Brought {
 public:
  // Writes the section for owner `owner`: its share or, in an Asked, the question for it. The letter refers to this.
  virtual void write(int owner, LetterDraft& letter) const = 0;

  // The variable's number, by the worker.
  std::uint32_t variable = 0;

 protected:
  ~Brought() = default;
};

// One argument of a pull, at a worker, made for one call: its sections ask for rows or a part.
class Asked : public Brought {
 public:
  // Takes the answer of owner `owner`, of `count` rows or elements, out of the letter. Throws Error (mismatch) of another one.
  virtual void take(int owner, LetterReader& letter, std::uint64_t count) = 0;

 protected:
  ~Asked() = default;
};

}  // namespace parallax
