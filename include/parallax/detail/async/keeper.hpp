// What the ranks of an AsyncSession do with one variable, without its type. A policy's `letters<Kind>` makes these: a Keeper for
// each variable, and for each argument of a pull or a push what asks for it or brings it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/topology.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/async/letter.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/core/slice.hpp"
#include "parallax/detail/variable/registration.hpp"

namespace parallax::inline v0_2 {

// What one worker has pushed of a variable: `count` rows or elements in `runs`, where its letter has them.
struct PushedPart {
  // Rows of a table, or elements of a dense variable.
  std::uint64_t count = 0;
  // All runs of the section, as the worker wrote them.
  std::span<std::byte const> runs;
};

// One variable, at every rank: what its owner answers and commits. Owns what the owner alone must have beside the variable's
// state; the service calls it. All of it is local.
class Keeper {
 public:
  virtual ~Keeper() = default;
  // By what the ranks know the variable.
  virtual Registration const& registration() const = 0;
  // Adds what ranks compare when training begins: the variable, and the settings of its optimizer.
  virtual void add_settings(Fingerprint& into) const = 0;
  // What settings are scheduled, in words; empty: none are.
  virtual std::string scheduled() const = 0;
  // Gives the optimizer the settings of the next update, where they are scheduled.
  virtual void next_settings() = 0;

  // Training begins: from here on the owner's share is the Keeper's, where that is not the variable's own.
  virtual void begin() {}
  // Training has ended on this rank: the share is the variable's again.
  virtual void end() {}
  // Updates so far: at an owner, all of them.
  virtual std::int64_t steps() const = 0;
  // Of a rank that owns nothing: so many updates there were.
  virtual void catch_up(std::int64_t steps) = 0;
  // A dense variable's memory on this rank. Of a table it is empty.
  struct Parts {
    // All elements.
    std::span<std::byte> memory;
    // Bytes of one; 0: there is none.
    std::size_t unit = 0;
  };
  // Once all is quiet, every rank is brought the owners' parts of it.
  virtual Parts parts() { return {}; }
  // The first element of an owner's part; of the number of owners, the end.
  virtual std::size_t begin_of(int) const { return 0; }

  // Reads what a pull asks for, and appends the answer's section.
  virtual void answer(LetterReader& letter, std::uint64_t count, LetterDraft& answer) = 0;
  // Reads what a push brings, and checks it.
  virtual PushedPart pushed(LetterReader& letter, std::uint64_t count) = 0;
  // One update by the sum of these parts, in their order, divided by their number where the variable's Reduce says so, and times
  // `scale`.
  virtual void commit(Slice<PushedPart const> parts, double scale) = 0;

  // The number of the variable, in the order in which variables were made.
  std::uint32_t number = 0;
};

// What a Keeper knows by the variable's state, which it holds, also once the variable is gone: a policy derives its own from it.
template <class State>
class KeeperOf : public Keeper {
  using Optimizer = typename State::optimizer_type;

 public:
  // Shares the state with the variable.
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
  // See AsyncSession::schedule.
  void schedule(std::function<void(Optimizer&, std::int64_t)> set) {
    schedule_ = std::move(set);
    state_->expect_change();
    next_settings();
  }
  std::int64_t steps() const final { return state_->steps(); }
  void catch_up(std::int64_t steps) final { state_->catch_up(steps); }

 protected:
  // The variable's.
  Shared<State> state_;

 private:
  // Ranks compare schedules where they are, for functions cannot be compared: at some updates.
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

// One argument of a pull, at a worker. Made for one call.
class Asked {
 public:
  // The section that asks owner `owner` for its share.
  virtual void write(int owner, LetterDraft& letter) const = 0;
  // What that owner has answered.
  virtual void take(int owner, LetterReader& letter, std::uint64_t count) = 0;

  // The variable's number, by the worker.
  std::uint32_t variable = 0;

 protected:
  ~Asked() = default;
};

// One argument of a push, likewise.
class Brought {
 public:
  // The section that brings owner `owner` its share.
  virtual void write(int owner, LetterDraft& letter) const = 0;

  // The variable's number, by the worker.
  std::uint32_t variable = 0;

 protected:
  ~Brought() = default;
};

}  // namespace parallax
